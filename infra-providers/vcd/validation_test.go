// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/vcd/vcdfake"
)

// allFields sets every field.
func allFields(s *infrav1.VCDMachineSpec) {
	s.TemplateVM, s.SizingPolicy, s.PlacementPolicy = "ubuntu", vcdfake.SizingPolicy, vcdfake.PlacementPolicy
	s.CoresPerSocket, s.DiskSizeGB, s.DiskIOPS = 2, 50, 1000
	s.Networks = []infrav1.VCDNetwork{
		{Name: vcdfake.Network, IPAllocationMode: "MANUAL", IPAddress: "10.9.0.7", AdapterType: "E1000E"},
		{Name: "none", IPAllocationMode: "NONE", AdapterType: "VMXNET3"},
	}
	s.GuestCustomization, s.AcceptEULAs = ptr.To(false), ptr.To(true)
	s.Metadata = map[string]infrav1.VCDMetadataValue{"cost-center": "7"}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	machine := testenv.Create(t, shared, newMachine("m", newSpec(func(s *infrav1.VCDMachineSpec) { s.Networks = []infrav1.VCDNetwork{{Name: "a"}} })))
	want := []infrav1.VCDNetwork{{Name: "a", IPAllocationMode: "DHCP", AdapterType: "VMXNET3"}}
	if diff := cmp.Diff(want, machine.Spec.Networks); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.VCDMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template)
	cluster := shared.Cluster(t)
	template.Spec.Template.Spec.CPUs = 8
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	for name, test := range map[string]struct {
		change func(*infrav1.VCDMachineSpec)
		want   string
	}{
		"no VDC":                     {func(s *infrav1.VCDMachineSpec) { s.VDC = "" }, "spec.vdc"},
		"a VDC that would be two":    {func(s *infrav1.VCDMachineSpec) { s.VDC = "a/b" }, "spec.vdc"},
		"no vApp":                    {func(s *infrav1.VCDMachineSpec) { s.VApp = "" }, "spec.vApp"},
		"no catalog":                 {func(s *infrav1.VCDMachineSpec) { s.Catalog = "" }, "spec.catalog"},
		"no template":                {func(s *infrav1.VCDMachineSpec) { s.Template = "" }, "spec.template"},
		"no size":                    {func(s *infrav1.VCDMachineSpec) { s.MemoryMB = 0 }, "set cpus and memoryMB, or a sizingPolicy"},
		"an odd memory":              {func(s *infrav1.VCDMachineSpec) { s.MemoryMB = 1025 }, "multiple of"},
		"cores that do not fit":      {func(s *infrav1.VCDMachineSpec) { s.CoresPerSocket = 3 }, "multiple of coresPerSocket"},
		"an address from a pool":     {func(s *infrav1.VCDMachineSpec) { s.Networks[0].IPAddress = "10.0.0.1" }, "an ipAddress is for the ipAllocationMode MANUAL"},
		"a mode without its address": {func(s *infrav1.VCDMachineSpec) { s.Networks[0].IPAllocationMode = "MANUAL" }, "an ipAddress is for the ipAllocationMode MANUAL"},
		"an unknown mode":            {func(s *infrav1.VCDMachineSpec) { s.Networks[0].IPAllocationMode = "STATIC" }, "Unsupported value"},
		"metadata of Drover": {func(s *infrav1.VCDMachineSpec) {
			s.Metadata = map[string]infrav1.VCDMetadataValue{"drover.io.machine": "x"}
		}, "are Drover's own"},
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
	full := newSpec(allFields)
	bare := newSpec(unchanged)
	bare.StorageProfile, bare.Networks = "", nil
	fields := reflect.TypeFor[infrav1.VCDMachineSpec]()
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		if slices.Contains([]string{"vdc", "vApp", "catalog", "template", "cpus", "memoryMB", "providerID", "credentialsSecretName"}, name) {
			continue
		}
		for _, specs := range [][2]infrav1.VCDMachineSpec{{full, bare}, {bare, full}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				machine := testenv.Create(t, shared, newMachine("m", *specs[0].DeepCopy()))
				reflect.ValueOf(&machine.Spec).Elem().Field(n).Set(reflect.ValueOf(specs[1]).Field(n))
				testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), name+" ")
			})
		}
	}
	for name, test := range map[string]struct {
		change func(*infrav1.VCDMachineSpec)
		refuse string
	}{
		"sets providerID": {func(s *infrav1.VCDMachineSpec) { s.ProviderID = "vmware-cloud-director://urn:vcloud:vm:a" }, ""},
		"keeps vdc":       {func(s *infrav1.VCDMachineSpec) { s.VDC = "other" }, "vdc is immutable"},
		"keeps vApp":      {func(s *infrav1.VCDMachineSpec) { s.VApp = "other" }, "vApp is immutable"},
		"keeps catalog":   {func(s *infrav1.VCDMachineSpec) { s.Catalog = "other" }, "catalog is immutable"},
		"keeps template":  {func(s *infrav1.VCDMachineSpec) { s.Template = "other" }, "template is immutable"},
		"keeps cpus":      {func(s *infrav1.VCDMachineSpec) { s.CPUs = 8 }, "cpus are immutable"},
		"keeps memoryMB":  {func(s *infrav1.VCDMachineSpec) { s.MemoryMB = 1024 }, "memoryMB is immutable"},
		"adds no Secret":  {func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "vcd" }, "must not be added or removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
	renamed := testenv.Create(t, shared, newMachine("m", newSpec(func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "vcd" })))
	renamed.Spec.CredentialsSecretName = "other"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), renamed), "")
}
