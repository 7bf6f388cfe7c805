// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
	"drover.io/bootstrap/profile"
)

// Stand-ins for what is not in the files: bootstrap data is rendered with them, and thrown away. They are not longer than
// what they stand for, so that data that is too large with them is too large in any case.
const (
	anyEndpoint = "a.test:443"
	anyToken    = "abcdef.0123456789abcdef"
	anyCA       = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	anySecret   = `{"auths":{"a.test":{"username":"u","password":"p"}}}`
)

// check renders the data of a host, as the controller does. Every Secret has the same value.
func (s *resolved) check(of *machine, cluster *clusterv1.Cluster) error {
	in := node.Input{Spec: withChecksums(s.merged), MachineName: "machine", Endpoint: anyEndpoint, CA: []byte(anyCA), Token: anyToken, Secrets: map[bootstrapv1.SecretKeyReference][]byte{}}
	for _, ref := range references(reflect.ValueOf(s.merged)) {
		in.Secrets[ref] = []byte(anySecret)
	}
	if of != nil {
		in.MachineName, in.Version = of.hostName(), of.spec.Version
	}
	if cluster != nil {
		if err := checkEndpoint(s.merged, cluster); err != nil {
			return err
		}
		if endpoint := endpointOf(cluster); endpoint != "" {
			in.Endpoint = endpoint
		}
		in.ClusterDomain = cluster.Spec.ClusterNetwork.ServiceDomain
		if ranges := cluster.Spec.ClusterNetwork.Services.CIDRBlocks; len(ranges) > 0 {
			in.ServiceCIDR = ranges[0]
		}
	}
	_, _, err := render.Data(in)
	return s.locate(err, of)
}

// checkEndpoint fails where the controller waits for an endpoint that nothing writes.
func checkEndpoint(spec *bootstrapv1.BootstrapConfigSpec, cluster *clusterv1.Cluster) error {
	if spec.Join.Endpoint != "" || cluster.Spec.ControlPlaneEndpoint.IsValid() || cluster.Spec.InfrastructureRef.IsDefined() || cluster.Spec.ControlPlaneRef.IsDefined() {
		return nil
	}
	return &subjectError{"Cluster " + cluster.Name, errors.New("spec.controlPlaneEndpoint: has no host and port, and without infrastructureRef and controlPlaneRef nothing adds them: set it, or spec.join.endpoint of the BootstrapConfig")}
}

// withChecksums has checksums in place of those that are not read yet: others of their length.
func withChecksums(spec *bootstrapv1.BootstrapConfigSpec) *bootstrapv1.BootstrapConfigSpec {
	spec = spec.DeepCopy()
	all := reflect.ValueOf(&spec.Binaries).Elem()
	for i := range all.NumField() {
		downloads, _ := all.Field(i).Interface().([]bootstrapv1.Download)
		for j := range downloads {
			if downloads[j].SHA256 == unread {
				sum := sha256.Sum256([]byte(downloads[j].URL))
				downloads[j].SHA256 = hex.EncodeToString(sum[:])
			}
		}
	}
	return spec
}

// locate adds to an error the object that has the field, where that is not the BootstrapConfig.
func (s *resolved) locate(err error, of *machine) error {
	if invalid, is := errors.AsType[*profile.InvalidError](err); is {
		subject := s.profile
		if invalid.OfBootstrapConfig() {
			subject = ""
		}
		return s.locateField(invalid.Field, invalid.Detail, subject, of)
	}
	if invalid, is := errors.AsType[*node.InvalidError](err); is {
		return s.locateField(invalid.Field, invalid.Detail, "", of)
	}
	return err
}

func (s *resolved) locateField(field, detail, subject string, of *machine) error {
	if name, ofMachine := strings.CutPrefix(field, "Machine.spec."); ofMachine && of != nil {
		return &subjectError{of.String(), fmt.Errorf("%s: %s", of.field(name), detail)}
	}
	if subject != "" {
		return &subjectError{subject, fmt.Errorf("%s: %s", field, detail)}
	}
	if s.profile != "" && s.originOf(field) == s.profile {
		return &subjectError{s.profile, fmt.Errorf("spec.defaults.%s: %s", s.inProfile(strings.TrimPrefix(field, "spec.")), detail)}
	}
	if s.kind != "BootstrapConfig" {
		field = strings.Replace(field, "spec.", "spec.template.spec.", 1)
	}
	return fmt.Errorf("%s: %s", field, detail)
}

// step is an index or a name in the path of a field.
var step = regexp.MustCompile(`\[\d+\]|[^.\[]+|\[[^\]]*\]`)

// inProfile is the path of a field of the merged specification in the defaults of the profile: an item of a list may be at
// another place there.
func (s *resolved) inProfile(path string) string {
	merged, under := s.trees.merged, s.trees.under
	for _, at := range step.FindAllStringIndex(path, -1) {
		name := strings.Trim(path[at[0]:at[1]], "[]")
		if list, is := merged.([]any); is {
			i, err := strconv.Atoi(name)
			all, _ := under.([]any)
			if err != nil || i >= len(list) {
				return path
			}
			j := slices.IndexFunc(all, func(item any) bool { return reflect.DeepEqual(item, list[i]) })
			if j < 0 {
				return path
			}
			path = path[:at[0]] + "[" + strconv.Itoa(j) + "]" + path[at[1]:]
			return path // there are no lists in lists of the profile that are merged
		}
		a, _ := merged.(map[string]any)
		b, _ := under.(map[string]any)
		merged, under = a[name], b[name]
	}
	return path
}

// bracket matches a key in the path of a field, other than an index.
var bracket = regexp.MustCompile(`\[([^\[\]]*[^\d\[\]][^\[\]]*)\]`)

// originOf is where all values of a field come from, or else those of what it is in; empty if they are of several origins.
func (s *resolved) originOf(field string) string {
	path := bracket.ReplaceAllString(strings.TrimPrefix(field, "spec."), ".$1")
	for path != "" {
		found := map[string]bool{}
		for value, origin := range s.values {
			if value == path || strings.HasPrefix(value, path+".") || strings.HasPrefix(value, path+"[") {
				found[origin] = true
			}
		}
		if len(found) > 0 {
			if origins := slices.Collect(maps.Keys(found)); len(origins) == 1 {
				return origins[0]
			}
			return ""
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return ""
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
