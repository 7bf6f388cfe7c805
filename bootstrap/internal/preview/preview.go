// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package preview shows what a BootstrapConfig becomes with its NodeProfile, from manifests and without a cluster: each field
// of the specification that hosts get, and where its value comes from. It reads no Secrets and no server. Command bootstrap
// calls it. What the API server or the controller refuse, it refuses with their words: it has the schemas of package
// crdvalidation, and the checks of packages profile, checksum, node and render.
package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/checksum"
	"drover.io/bootstrap/node"
	"drover.io/bootstrap/profile"
)

// Write writes the specification of each BootstrapConfig and BootstrapConfigTemplate as YAML, with the origin of each value as
// a comment. Nothing is written where one of them is wrong; the error has a line for each.
func Write(to io.Writer, m *Manifests) error {
	if len(m.configs) == 0 {
		return errors.New("there is no BootstrapConfig and no BootstrapConfigTemplate in the files")
	}
	if err := m.checkReferences(); err != nil {
		return err
	}
	var out bytes.Buffer
	var problems []error
	for i, c := range m.configs {
		if i > 0 {
			out.WriteString("---\n")
		}
		for _, err := range each(write(&out, m, c)) {
			if elsewhere, is := errors.AsType[*subjectError](err); is {
				problems = append(problems, fmt.Errorf("%s, for %s: %w", elsewhere.subject, &c, elsewhere.err))
			} else {
				problems = append(problems, fmt.Errorf("%s: %w", &c, err))
			}
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	_, err := to.Write(out.Bytes())
	return err
}

// each are the errors that one was joined from.
func each(err error) []error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// subjectError is about another object than the BootstrapConfig.
type subjectError struct {
	subject string
	err     error
}

func (e *subjectError) Error() string { return e.subject + ": " + e.err.Error() }

func write(out io.Writer, m *Manifests, c config) error {
	machine, err := m.machineOf(c)
	if err != nil {
		return err
	}
	cluster, err := m.clusterOf(c, machine)
	if err != nil {
		return err
	}
	s, err := m.resolve(c, machine, cluster)
	if err != nil {
		return err
	}
	content, err := s.text()
	if err != nil {
		return err
	}
	if err := s.check(machine, cluster); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "# %s\n%s\n", &c, content)
	return err
}

// resolved is a specification with what is known of its origins.
type resolved struct {
	merged, own   *bootstrapv1.BootstrapConfigSpec
	given         any
	under         *bootstrapv1.NodeDefaults
	profile, kind string            // what fields come from
	origins       map[string]string // of fields that are of neither
	values        map[string]string // the origin of each value
	trees         struct{ merged, under any }
}

const (
	ofRelease = "release of Kubernetes "
	ofCluster = "Cluster "
	ofDefault = "default"
)

// resolve does what the controller does, with the checksums that the profile has already.
func (m *Manifests) resolve(c config, machine *machine, cluster *clusterv1.Cluster) (*resolved, error) {
	s := &resolved{
		merged: c.spec.DeepCopy(), own: c.spec, given: c.given, under: &bootstrapv1.NodeDefaults{}, kind: c.kind,
		origins: map[string]string{}, values: map[string]string{},
	}
	if name := c.spec.ProfileRef.Name; name != "" {
		p, err := m.profileOf(c, name)
		if err != nil {
			return nil, err
		}
		s.profile, s.under = "NodeProfile "+p.Name, &p.Spec.Defaults
		s.merged, _ = profile.Merge(c.spec, s.under)
		version := ""
		if machine != nil {
			version = machine.spec.Version
		}
		release, err := profile.Plan(s.merged, &p.Spec.Releases, version)
		if invalid, is := errors.AsType[*profile.InvalidError](err); is && machine == nil && invalid.Field == profile.VersionField {
			return nil, m.noMachine(c)
		}
		if err != nil {
			return nil, s.locate(err, machine)
		}
		if err := s.addRelease(p, release, version); err != nil {
			return nil, err
		}
	}
	s.addDefaults(cluster)
	return s, nil
}

// addRelease adds binaries. The checksums that the profile does not have must be readable, as far as that can be known
// without reading them.
func (s *resolved) addRelease(p *bootstrapv1.NodeProfile, release *profile.Release, version string) error {
	known := profile.ChecksumsOf(p)
	missing := known.Missing(release.Binaries)
	problems := []error{s.locate(profile.CheckPlace(p, missing), nil)}
	for _, b := range missing {
		err := profile.CheckTrusted(b)
		if err == nil {
			err = checksum.Check(b.ChecksumURL, p.Spec.Defaults.TrustedCAs)
			if err != nil {
				err = &subjectError{s.profile, profile.Unreadable(b, err)}
			}
		}
		problems = append(problems, s.locate(err, nil))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	at := map[bootstrapv1.Component]int{}
	fields := release.Set(s.merged, func(b profile.Binary) string {
		path := "binaries." + string(b.Component) + "[" + strconv.Itoa(at[b.Component]) + "].sha256"
		at[b.Component]++
		if digest := known.Of(b); digest != "" {
			s.origins[path] = s.profile
			return digest
		}
		s.origins[path] = "to be read from " + b.ChecksumSource()
		return unread
	})
	for _, field := range fields {
		s.origins[field[len("spec."):]] = ofRelease + version
	}
	return nil
}

// unread is printed in place of a checksum that is read when the first machine is created.
const unread = "?"

// addDefaults has the values that the controller has for the fields of an object without defaults of the schema, and those
// that hosts get of their Cluster.
func (s *resolved) addDefaults(cluster *clusterv1.Cluster) {
	if s.merged.Join.TokenTTLSeconds == nil {
		s.merged.Join.TokenTTLSeconds, s.origins["join.tokenTTLSeconds"] = ptr.To[int32](1800), ofDefault
	}
	if cluster == nil {
		return
	}
	if endpoint := endpointOf(cluster); s.merged.Join.Endpoint == "" && endpoint != "" {
		s.merged.Join.Endpoint, s.origins["join.endpoint"] = endpoint, ofCluster+cluster.Name
	}
	if ranges := cluster.Spec.ClusterNetwork.Services.CIDRBlocks; len(ranges) > 0 && len(s.merged.Kubelet.ClusterDNS) == 0 && s.merged.Join.Method != bootstrapv1.JoinKubeadm {
		s.merged.Kubelet.ClusterDNS, s.origins["kubelet.clusterDNS"] = node.ClusterDNS(node.Input{Spec: s.merged, ServiceCIDR: ranges[0]}), ofCluster+cluster.Name
	}
}

func endpointOf(cluster *clusterv1.Cluster) string {
	endpoint := cluster.Spec.ControlPlaneEndpoint
	if !endpoint.IsValid() {
		return ""
	}
	return net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
}
