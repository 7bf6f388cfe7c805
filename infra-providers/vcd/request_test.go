// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

// TestVirtualMachine creates one with every field of the spec.
func TestVirtualMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	config, err := vcd.NewInstanceConfig(&infrav1.VCDMachine{Spec: newSpec(func(s *infrav1.VCDMachineSpec) {
		s.SizingPolicy, s.PlacementPolicy = vcdfake.SizingPolicy, vcdfake.OtherPlacement
		s.CoresPerSocket, s.DiskSizeGB, s.DiskIOPS, s.AcceptEULAs = 2, 50, 1000, ptr.To(true)
		s.Networks = []infrav1.VCDNetwork{
			{Name: vcdfake.Network, IPAllocationMode: "MANUAL", IPAddress: "10.9.0.7", AdapterType: "E1000E"},
			{Name: "none"},
		}
		s.Metadata = map[string]infrav1.VCDMetadataValue{"cost-center": "7"}
	})}, vcdfake.PlacementPolicy)
	if err != nil {
		t.Fatal(err)
	}
	found := create(t, w.connect(t), newRequest(identity, config))
	vm, metadata, properties := w.cloud.VM(found.ID)
	if diff := cmp.Diff(map[string]string{
		"drover.io.machine-uid": string(identity.UID), "drover.io.machine": "worker-1", "drover.io.cluster": "home", "drover.io.cluster-namespace": "team",
		"drover.io.cluster-uid": "c", "drover.io.failure-domain": vcdfake.PlacementPolicy, "cost-center": "7",
	}, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"instance-id": string(identity.UID), "hostname": "worker-1", "user-data": base64.StdEncoding.EncodeToString([]byte("#cloud-config\n"))}, properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	spec := vm.VmSpecSection
	disk := spec.DiskSection.DiskSettings[0]
	if *spec.NumCpus != 4 || *spec.NumCoresPerSocket != 2 || spec.MemoryResourceMb.Configured != 8192 || disk.SizeMb != 50<<10 || disk.IopsAllocation.Limit != 1000 {
		t.Errorf("hardware %+v, disk %+v", spec, disk)
	}
	if vm.Name != "drover-"+string(identity.UID) || vm.Description != "drover.io team worker-1 home c" || vm.StorageProfile.Name != vcdfake.StorageProfile {
		t.Errorf("got the name %q, the description %q and the storage profile %+v", vm.Name, vm.Description, vm.StorageProfile)
	}
	if custom := vm.GuestCustomizationSection; custom.ComputerName != "worker-1" || !*custom.Enabled {
		t.Errorf("got the customization %+v", custom)
	}
	if found.FailureDomain != vcdfake.PlacementPolicy {
		t.Errorf("got the failure domain %q", found.FailureDomain)
	}
	instance, err := w.connect(t).Get(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.9.0.7"}, {Type: clusterv1.MachineHostName, Address: "worker-1"}}, instance.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if len(instance.Reported) != 1 || !strings.HasPrefix(instance.Reported[0].Address, "10.2.") {
		t.Errorf("the guest reports %v, want its address by DHCP", instance.Reported)
	}
}

// TestIgnition is passed by the properties that it reads.
func TestIgnition(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	req := newRequest(identity, newConfig(t, unchanged))
	req.UserData, req.Format = []byte(`{"ignition":{}}`), "ignition"
	_, _, properties := w.cloud.VM(create(t, w.connect(t), req).ID)
	want := map[string]string{"guestinfo.ignition.config.data": base64.StdEncoding.EncodeToString(req.UserData), "guestinfo.ignition.config.data.encoding": "base64"}
	if diff := cmp.Diff(want, properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

// TestSizesThatTheSpecLeavesOut are those of the policy and the template, without a change of the hardware.
func TestSizesThatTheSpecLeavesOut(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	found := create(t, d, newRequest(identity, newConfig(t, func(s *infrav1.VCDMachineSpec) {
		s.CPUs, s.MemoryMB, s.SizingPolicy, s.Networks, s.StorageProfile = 0, 0, vcdfake.SizingPolicy, nil, ""
	})))
	vm, _, _ := w.cloud.VM(found.ID)
	if *vm.VmSpecSection.NumCpus != 2 || vm.VmSpecSection.MemoryResourceMb.Configured != 4096 || *vm.GuestCustomizationSection.Enabled || w.cloud.Counts()["reconfigure"] != 0 {
		t.Errorf("got %+v after %d changes", vm.VmSpecSection, w.cloud.Counts()["reconfigure"])
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	sized := w.connect(t).(driver.CapacityProvider[vcd.InstanceConfig])
	for name, test := range map[string]struct {
		change func(*infrav1.VCDMachineSpec)
		want   corev1.ResourceList
	}{
		"is that of the spec": {func(s *infrav1.VCDMachineSpec) { s.DiskSizeGB = 20 }, corev1.ResourceList{
			"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("20Gi")}},
		"is that of the policy": {func(s *infrav1.VCDMachineSpec) { s.CPUs, s.MemoryMB, s.SizingPolicy = 0, 0, vcdfake.SizingPolicy }, corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}},
		"is not known of a policy without sizes": {func(s *infrav1.VCDMachineSpec) { s.CPUs, s.MemoryMB, s.SizingPolicy = 0, 0, "open" }, nil},
		"is not known of an unknown policy":      {func(s *infrav1.VCDMachineSpec) { s.SizingPolicy = "gone" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sized.Capacity(t.Context(), newConfig(t, test.change))
			if test.want == nil {
				if !driver.IsInvalidConfiguration(err) {
					t.Errorf("got %v, want an InvalidConfigurationError", err)
				}
				return
			}
			if err != nil || got.Architecture != "amd64" || got.OperatingSystem != "linux" {
				t.Errorf("got %+v and %v", got, err)
			}
			for resource, want := range test.want {
				if have := got.Capacity[resource]; want.Cmp(have) != 0 {
					t.Errorf("%s is %s, want %s", resource, have.String(), want.String())
				}
			}
		})
	}
}

// TestNamesThatDoNotFit are refused before anything is created.
func TestNamesThatDoNotFit(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	long, odd := identity, identity
	long.Name, odd.UID = strings.Repeat("a", 250), "no/uid"
	for name, id := range map[string]driver.Identity{"a long name": long, "a UID that is none": odd} {
		if _, err := d.Create(t.Context(), newRequest(id, newConfig(t, unchanged))); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", name, err)
		}
	}
	large := newRequest(identity, newConfig(t, unchanged))
	large.UserData, large.Format = []byte(strings.Repeat("x", 65<<10)), "ignition"
	if _, err := d.Create(t.Context(), large); !driver.IsInvalidConfiguration(err) {
		t.Errorf("large user data: got %v, want an InvalidConfigurationError", err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q was created", left)
	}
}
