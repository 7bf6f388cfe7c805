// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package clone_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/vcenter"
)

func ref(kind, value string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: kind, Value: value}
}

// place is a template with a disk of 10 GiB on a SCSI controller, and a network card.
func place(t *testing.T) vcenter.Placement {
	t.Helper()
	devices := object.VirtualDeviceList(append([]types.BaseVirtualDevice{}, esx.VirtualDevice...))
	controller, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		t.Fatal(err)
	}
	controller.GetVirtualDevice().Key = 1000
	unit := int32(0)
	disk := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 2000, ControllerKey: 1000, UnitNumber: &unit}, CapacityInBytes: 10 << 30, CapacityInKB: 10 << 20}
	card := &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{VirtualDevice: types.VirtualDevice{Key: 4000}}}}
	return vcenter.Placement{Devices: append(devices, controller, disk, card), Pool: ref("ResourcePool", "p")}
}

func TestLinkedClone(t *testing.T) {
	t.Parallel()
	at := place(t)
	snapshot := ref("VirtualMachineSnapshot", "s")
	at.Snapshot = &snapshot
	for linked, want := range map[bool]string{true: "createNewChildDiskBacking", false: "moveAllDiskBackingsAndConsolidate"} {
		spec, err := clone.Spec(clone.Shape{UUID: "u", Linked: linked}, at)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Location.DiskMoveType != want || spec.Snapshot == nil || *spec.Snapshot != snapshot {
			t.Errorf("linked %t: disks %q, snapshot %v", linked, spec.Location.DiskMoveType, spec.Snapshot)
		}
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	at := place(t)
	host, datastore := ref("HostSystem", "h"), ref("Datastore", "d")
	at.Host, at.Datastore, at.Profile = &host, &datastore, "gold"
	got, err := clone.Spec(clone.Shape{UUID: "u", CPUs: 4, CoresPerSocket: 2, MemoryMiB: 2048, ExtraConfig: map[string]string{"b": "2", "a": "1"}}, at)
	if err != nil {
		t.Fatal(err)
	}
	cores, pool := int32(2), ref("ResourcePool", "p")
	profile := []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: "gold"}}
	want := types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: &pool, Host: &host, Datastore: &datastore, DiskMoveType: "moveAllDiskBackingsAndConsolidate", Profile: profile},
		Config: &types.VirtualMachineConfigSpec{
			InstanceUuid: "u", Uuid: "u", NumCPUs: 4, NumCoresPerSocket: &cores, MemoryMB: 2048, VmProfile: profile,
			ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: "a", Value: "1"}, &types.OptionValue{Key: "b", Value: "2"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// change is what matters of a device change.
type change struct {
	Operation, File string
	Key             int32
	GiB             int64
	Unit            int32
	Thin, Wiped     bool
	Profile         bool
	MAC, AddressBy  string
}

func TestDevices(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shape   clone.Shape
		profile string
		want    []change
	}{
		"leaves the template's devices":   {clone.Shape{}, "", nil},
		"leaves a disk of the right size": {clone.Shape{DiskGiB: 10}, "", nil},
		"grows the first disk":            {clone.Shape{DiskGiB: 20}, "", []change{{Operation: "edit", Key: 2000, GiB: 20}}},
		"gives each disk a place of its own": {clone.Shape{Disks: []infrav1.VSphereDisk{{SizeGiB: 1}, {SizeGiB: 2, Provisioning: infrav1.VSphereEagerlyZeroed}, {SizeGiB: 3, Provisioning: infrav1.VSphereThick}}}, "gold", []change{
			{Operation: "add", File: "create", Key: -100, GiB: 1, Unit: 1, Thin: true, Profile: true},
			{Operation: "add", File: "create", Key: -101, GiB: 2, Unit: 2, Wiped: true, Profile: true},
			{Operation: "add", File: "create", Key: -102, GiB: 3, Unit: 3, Profile: true},
		}},
		"replaces the network cards": {clone.Shape{Networks: []infrav1.VSphereNetwork{{Name: "n", MACAddress: "00:50:56:00:00:01"}, {Name: "m", Adapter: "e1000e"}}}, "", []change{
			{Operation: "remove", Key: 4000},
			{Operation: "add", Key: -200, MAC: "00:50:56:00:00:01", AddressBy: "manual"},
			{Operation: "add", Key: -201, AddressBy: "generated"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := place(t)
			at.Profile = test.profile
			for range test.shape.Networks {
				at.Networks = append(at.Networks, &types.VirtualEthernetCardNetworkBackingInfo{})
			}
			before := len(at.Devices)
			spec, err := clone.Spec(test.shape, at)
			if err != nil {
				t.Fatal(err)
			}
			var got []change
			for _, made := range spec.Config.DeviceChange {
				got = append(got, describe(made))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if disk := at.Devices[before-2].(*types.VirtualDisk); disk.CapacityInBytes != 10<<30 || len(at.Devices) != before {
				t.Error("the template's devices were changed, which others share")
			}
		})
	}
}

func describe(made types.BaseVirtualDeviceConfigSpec) change {
	spec := made.GetVirtualDeviceConfigSpec()
	got := change{Operation: string(spec.Operation), File: string(spec.FileOperation), Key: spec.Device.GetVirtualDevice().Key, Profile: len(spec.Profile) > 0}
	switch device := spec.Device.(type) {
	case *types.VirtualDisk:
		got.GiB, got.Unit = device.CapacityInBytes>>30, *device.UnitNumber
		if backing, ok := device.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			got.Thin, got.Wiped = *backing.ThinProvisioned, *backing.EagerlyScrub
		}
	case types.BaseVirtualEthernetCard:
		got.MAC, got.AddressBy = device.GetVirtualEthernetCard().MacAddress, device.GetVirtualEthernetCard().AddressType
	}
	return got
}

func TestSpecErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shape clone.Shape
		bare  bool
		field string
	}{
		"a disk that would shrink":           {clone.Shape{DiskGiB: 9}, false, "spec.diskGiB"},
		"to grow a disk that is not there":   {clone.Shape{DiskGiB: 9}, true, "spec.diskGiB"},
		"disks without a controller":         {clone.Shape{Disks: make([]infrav1.VSphereDisk, 1)}, true, "spec.disks"},
		"more disks than the controller has": {clone.Shape{Disks: make([]infrav1.VSphereDisk, 15)}, false, "spec.disks[14]"},
		"a card of an unknown kind":          {clone.Shape{Networks: []infrav1.VSphereNetwork{{Adapter: "tin can"}}}, false, "spec.networks[0].adapter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := place(t)
			if test.bare {
				at.Devices = nil
			}
			at.Networks = []types.BaseVirtualDeviceBackingInfo{&types.VirtualEthernetCardNetworkBackingInfo{}}
			_, err := clone.Spec(test.shape, at)
			if shaped, ok := errors.AsType[*clone.ShapeError](err); !ok || shaped.Field != test.field {
				t.Errorf("got %v, want a ShapeError about %s", err, test.field)
			}
		})
	}
}
