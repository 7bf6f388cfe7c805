// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.MetalStackMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template)
	cluster := shared.Cluster(t)
	template.Spec.Template.Spec.Size = metalstackfake.BigSize
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	for name, test := range map[string]struct {
		change func(*infrav1.MetalStackMachineSpec)
		want   string
	}{
		"no project":               {func(s *infrav1.MetalStackMachineSpec) { s.Project = "" }, "spec.project"},
		"a project that is a path": {func(s *infrav1.MetalStackMachineSpec) { s.Project = "a/b" }, "spec.project"},
		"no image":                 {func(s *infrav1.MetalStackMachineSpec) { s.Image = "" }, "spec.image"},
		"no private network":       {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks = nil }, "spec.privateNetworks"},
		"two of a partition":       {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[1].Partition = metalstackfake.PartitionA }, "Duplicate value"},
		"none of the partition":    {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks = s.PrivateNetworks[1:] }, "privateNetworks must have the network of the partition"},
		"none of a fallback's":     {func(s *infrav1.MetalStackMachineSpec) { s.Fallbacks = []infrav1.MetalStackFallback{{Partition: "x"}} }, "of the partition of each fallback"},
		"a private network twice": {func(s *infrav1.MetalStackMachineSpec) {
			s.Networks = []infrav1.MetalStackNetwork{{NetworkID: metalstackfake.NetworkB}}
		}, "networks are those beside the private network"},
		"an address that is none":   {func(s *infrav1.MetalStackMachineSpec) { s.IPs = []string{"10.0.0.300"} }, "it must be an IP address"},
		"a key that is none":        {func(s *infrav1.MetalStackMachineSpec) { s.SSHKeys = []string{"AAAAC3NzaC1lZDI1NTE5AAAA"} }, "spec.sshKeys"},
		"two keys in one":           {func(s *infrav1.MetalStackMachineSpec) { s.SSHKeys = []string{sshKey + "\n" + sshKey} }, "spec.sshKeys"},
		"a tag of Drover":           {func(s *infrav1.MetalStackMachineSpec) { s.Tags = []string{"drover.io/machine-uid=x"} }, "must not begin with"},
		"a tag of metal-stack":      {func(s *infrav1.MetalStackMachineSpec) { s.Tags = []string{"machine.metal-stack.io/rack=x"} }, "must not begin with"},
		"a placement tag of Drover": {func(s *infrav1.MetalStackMachineSpec) { s.PlacementTags = []string{"drover.io/cluster=x"} }, "must not begin with"},
		"four DNS servers": {func(s *infrav1.MetalStackMachineSpec) {
			s.DNSServers = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
		}, "spec.dnsServers"},
		"a DNS server with a name":          {func(s *infrav1.MetalStackMachineSpec) { s.DNSServers = []string{"dns.example.org"} }, "it must be an IP address"},
		"an NTP server that is none":        {func(s *infrav1.MetalStackMachineSpec) { s.NTPServers = []string{"a b"} }, "spec.ntpServers"},
		"a fallback without any difference": {func(s *infrav1.MetalStackMachineSpec) { s.Fallbacks = []infrav1.MetalStackFallback{{}} }, "spec.fallbacks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine("m", newSpec(test.change))
			machine.Namespace = namespace
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.want)
		})
	}
}

// TestSpecIsImmutable drops and adds every optional field, and changes the required ones.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	full, bare := newSpec(allFields), newSpec(unchanged)
	full.CredentialsSecretName = "metal"
	fields := reflect.TypeFor[infrav1.MetalStackMachineSpec]()
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		if slices.Contains([]string{"providerID", "project", "partition", "size", "image", "privateNetworks"}, name) {
			continue
		}
		for _, specs := range [][2]infrav1.MetalStackMachineSpec{{full, bare}, {bare, full}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				machine := testenv.Create(t, shared, newMachine("m", *specs[0].DeepCopy()))
				reflect.ValueOf(&machine.Spec).Elem().Field(n).Set(reflect.ValueOf(specs[1]).Field(n))
				testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), name+" ")
			})
		}
	}
	for name, test := range map[string]struct {
		change func(*infrav1.MetalStackMachineSpec)
		refuse string
	}{
		"sets providerID":       {func(s *infrav1.MetalStackMachineSpec) { s.ProviderID = "metal://a/b" }, ""},
		"keeps project":         {func(s *infrav1.MetalStackMachineSpec) { s.Project = "x" }, "project is immutable"},
		"keeps partition":       {func(s *infrav1.MetalStackMachineSpec) { s.Partition = metalstackfake.PartitionB }, "partition is immutable"},
		"keeps size":            {func(s *infrav1.MetalStackMachineSpec) { s.Size = metalstackfake.BigSize }, "size is immutable"},
		"keeps image":           {func(s *infrav1.MetalStackMachineSpec) { s.Image = metalstackfake.OldImage }, "image is immutable"},
		"keeps privateNetworks": {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = "x" }, "privateNetworks are immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
