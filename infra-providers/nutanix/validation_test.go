// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

// allFields sets every field but the name of the image, whose place the UUID takes.
func allFields(s *infrav1.NutanixMachineSpec) {
	settings := infrav1.NutanixDiskSettings{SizeGiB: ptr.To[int64](50), Bus: "SATA", StorageContainer: nutanixfake.Container, FlashMode: ptr.To(true)}
	s.VCPUsPerSocket, s.CPUPassthrough, s.Image = ptr.To[int32](2), ptr.To(true), infrav1.NutanixImage{UUID: nutanixfake.ImageID(0)}
	s.SystemDisk, s.DataDisks = settings, []infrav1.NutanixDisk{{Name: "data", NutanixDiskSettings: settings}}
	s.NetworkInterfaces[0].Queues = ptr.To[int32](4)
	s.BootType, s.VTPM, s.ProjectID = "SecureBoot", ptr.To(true), nutanixfake.Project
	s.GPUs = []infrav1.NutanixGPU{{Mode: "Virtual", Vendor: "NVIDIA", DeviceID: nutanixfake.GPU}}
	s.Categories = []infrav1.NutanixCategory{{Key: nutanixfake.CategoryKey, Value: nutanixfake.CategoryValue}}
	s.HardwareClockTimezone = "Europe/Berlin"
	s.Fallbacks = []infrav1.NutanixFallback{{Cluster: nutanixfake.ClusterB, VCPUSockets: ptr.To[int32](1), MemoryMiB: ptr.To[int64](2048)}}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	for name, test := range map[string]struct {
		change func(*infrav1.NutanixMachineSpec)
		want   string
	}{
		"no cluster":            {func(s *infrav1.NutanixMachineSpec) { s.Cluster = "" }, "spec.cluster"},
		"no sockets":            {func(s *infrav1.NutanixMachineSpec) { s.VCPUSockets = 0 }, "spec.vcpuSockets"},
		"an image twice":        {func(s *infrav1.NutanixMachineSpec) { s.Image.UUID = nutanixfake.ImageID(0) }, "exactly one of name and uuid"},
		"no UUID":               {func(s *infrav1.NutanixMachineSpec) { s.Image = infrav1.NutanixImage{UUID: "x"} }, "spec.image.uuid"},
		"no network interface":  {func(s *infrav1.NutanixMachineSpec) { s.NetworkInterfaces = nil }, "spec.networkInterfaces"},
		"a disk without a size": {func(s *infrav1.NutanixMachineSpec) { s.DataDisks = []infrav1.NutanixDisk{{Name: "data"}} }, "sizeGiB must be set"},
		"a TPM without UEFI":    {func(s *infrav1.NutanixMachineSpec) { s.VTPM = ptr.To(true) }, "vtpm needs bootType"},
		"an unknown boot type":  {func(s *infrav1.NutanixMachineSpec) { s.BootType = "BIOS" }, "spec.bootType"},
		"a category of Drover": {func(s *infrav1.NutanixMachineSpec) {
			s.Categories = []infrav1.NutanixCategory{{Key: "drover-cluster", Value: "x"}}
		}, "provider's own"},
		"a fallback to the same": {func(s *infrav1.NutanixMachineSpec) { s.Fallbacks = []infrav1.NutanixFallback{{}} }, "spec.fallbacks[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine("m", newSpec(test.change))
			machine.Namespace = namespace
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.want)
		})
	}
}

func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.NutanixMachineSpec)
		refuse string
	}{
		"sets providerID":          {func(s *infrav1.NutanixMachineSpec) { s.ProviderID = "nutanix://x" }, ""},
		"keeps cluster":            {func(s *infrav1.NutanixMachineSpec) { s.Cluster = nutanixfake.ClusterB }, "cluster is immutable"},
		"keeps vcpuSockets":        {func(s *infrav1.NutanixMachineSpec) { s.VCPUSockets = 4 }, "vcpuSockets are immutable"},
		"keeps memoryMiB":          {func(s *infrav1.NutanixMachineSpec) { s.MemoryMiB = 8192 }, "memoryMiB is immutable"},
		"keeps image":              {func(s *infrav1.NutanixMachineSpec) { s.Image.Name = "other" }, "image is immutable"},
		"keeps systemDisk":         {func(s *infrav1.NutanixMachineSpec) { s.SystemDisk.SizeGiB = ptr.To[int64](60) }, "systemDisk is immutable"},
		"does not change networks": {func(s *infrav1.NutanixMachineSpec) { s.NetworkInterfaces[0].Subnet = "x" }, "networkInterfaces are immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
