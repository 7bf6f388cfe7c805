// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package preview shows what a BootstrapConfig becomes with its NodeProfile, from manifests and without a cluster: each field
// of the specification that hosts get, and where its value comes from. It reads no Secrets and no server. Command bootstrap
// calls it.
package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node"
	"drover.io/bootstrap/profile"
)

// Write writes the specification of each BootstrapConfig and BootstrapConfigTemplate as YAML, with the origin of each value as
// a comment. Nothing is written where one of them is wrong.
func Write(to io.Writer, m *Manifests) error {
	if len(m.configs) == 0 {
		return errors.New("there is no BootstrapConfig and no BootstrapConfigTemplate in the files")
	}
	var out bytes.Buffer
	for i, c := range m.configs {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := write(&out, m, c); err != nil {
			return fmt.Errorf("%s %s: %w", c.kind, c.name, err)
		}
	}
	_, err := to.Write(out.Bytes())
	return err
}

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
	if err := s.check(machine, cluster); err != nil {
		return err
	}
	return s.print(out, c.kind+" "+c.name)
}

// resolved is a specification with what is known of its origins.
type resolved struct {
	merged, own   *bootstrapv1.BootstrapConfigSpec
	under         *bootstrapv1.NodeDefaults
	profile, kind string            // what fields come from
	origins       map[string]string // of fields that are of neither
}

const (
	ofRelease = "release of Kubernetes "
	ofCluster = "Cluster "
	ofDefault = "default"
)

// resolve does what the controller does, with the checksums that the profile has already.
func (m *Manifests) resolve(c config, machine *machine, cluster *clusterv1.Cluster) (*resolved, error) {
	s := &resolved{merged: c.spec.DeepCopy(), own: c.spec, under: &bootstrapv1.NodeDefaults{}, kind: c.kind, origins: map[string]string{}}
	if name := c.spec.ProfileRef.Name; name != "" {
		p, err := m.profileOf(c, name)
		if err != nil {
			return nil, err
		}
		s.profile, s.under = "NodeProfile "+p.Name, &p.Spec.Defaults
		s.merged, _ = profile.Merge(c.spec, s.under)
		if err := s.addRelease(p, machine); err != nil {
			return nil, err
		}
	}
	s.addDefaults(cluster)
	return s, nil
}

func (s *resolved) addRelease(p *bootstrapv1.NodeProfile, of *machine) error {
	version := ""
	if of != nil {
		version = of.version
	}
	release, err := profile.Plan(s.merged, &p.Spec.Releases, version)
	if err != nil {
		if of == nil {
			return fmt.Errorf("there is no Machine and no MachineDeployment that refers to it in the files, whose version the NodeProfile needs: %w", err)
		}
		return err
	}
	known := map[[3]string]string{}
	for _, d := range slices.Concat(p.Status.Releases, p.Spec.Releases.Digests) {
		known[[3]string{string(d.Component), d.Version, d.Architecture}] = d.SHA256
	}
	at := map[bootstrapv1.Component]int{}
	fields := release.Set(s.merged, func(b profile.Binary) string {
		path := "binaries." + string(b.Component) + "[" + strconv.Itoa(at[b.Component]) + "].sha256"
		at[b.Component]++
		digest := known[[3]string{string(b.Component), b.Version, b.Architecture}]
		switch {
		case digest != "":
			s.origins[path] = s.profile
			return digest
		case b.ChecksumURL == "":
			s.origins[path] = "none: add it to spec.releases.digests of the NodeProfile"
		default:
			s.origins[path] = "to be read from " + redacted(b.ChecksumURL)
		}
		return unread
	})
	for _, field := range fields {
		s.origins[field[len("spec."):]] = ofRelease + version
	}
	return nil
}

// unread is printed in place of a checksum that is read when the first machine is created.
const unread = "?"

// addDefaults has the values of the schema, and those that hosts get of their Cluster.
func (s *resolved) addDefaults(cluster *clusterv1.Cluster) {
	if s.merged.Join.TokenTTLSeconds == nil {
		s.merged.Join.TokenTTLSeconds, s.origins["join.tokenTTLSeconds"] = ptr.To[int32](1800), ofDefault
	}
	if s.merged.MaxSizeBytes == nil {
		s.merged.MaxSizeBytes, s.origins["maxSizeBytes"] = ptr.To[int32](16384), ofDefault
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

// Stand-ins for what is not in the files: a host is described with them, and thrown away.
const (
	anyEndpoint = "api.example.test:6443"
	anyToken    = "abcdef.0123456789abcdef"
	anyCA       = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	anySecret   = `{"auths":{"registry.example.test":{"username":"user","password":"password"}}}`
)

// check describes a host, as the controller does. Every Secret has the same value.
func (s *resolved) check(of *machine, cluster *clusterv1.Cluster) error {
	in := node.Input{Spec: s.merged, MachineName: "machine", Endpoint: anyEndpoint, CA: []byte(anyCA), Token: anyToken, Secrets: map[bootstrapv1.SecretKeyReference][]byte{}}
	for _, ref := range references(reflect.ValueOf(s.merged)) {
		in.Secrets[ref] = []byte(anySecret)
	}
	if of != nil {
		in.MachineName, in.Version = of.name, of.version
	}
	if cluster != nil {
		in.ClusterDomain = cluster.Spec.ClusterNetwork.ServiceDomain
	}
	_, err := node.Describe(in)
	return err
}

// references are all references to keys of Secrets.
func references(v reflect.Value) []bootstrapv1.SecretKeyReference {
	if ref, is := v.Interface().(bootstrapv1.SecretKeyReference); is {
		return []bootstrapv1.SecretKeyReference{ref}
	}
	var all []bootstrapv1.SecretKeyReference
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return references(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				all = append(all, references(v.Field(i))...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, references(v.Index(i))...)
		}
	}
	return all
}
