// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package clone writes the specification of a clone: the shape, disks and network cards of a new virtual
// machine over those of its template. It is pure; the driver resolves names before and sends the result.
package clone

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/vsphere/vcenter"
)

const (
	gib = 1 << 30
	// units is how many devices any SCSI controller can have, itself included.
	units = 16
)

// Shape is what the new virtual machine is to be.
type Shape struct {
	// UUID becomes the instance UUID, by which the virtual machine is found, and the BIOS UUID, which is
	// the one that its host reads.
	UUID           string
	CPUs           int32
	CoresPerSocket int32
	MemoryMiB      int64
	// DiskGiB is zero to leave the template's first disk as it is.
	DiskGiB     int64
	Disks       []infrav1.VSphereDisk
	Networks    []infrav1.VSphereNetwork
	Linked      bool
	ExtraConfig map[string]string
}

// ShapeError means that a template cannot take a shape.
type ShapeError struct {
	Field string
	Err   error
}

func (e *ShapeError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ShapeError) Unwrap() error { return e.Err }

// Spec returns the specification of a clone. It is not powered on: that comes after what can only be done
// once the virtual machine is there.
func Spec(shape Shape, place vcenter.Placement) (types.VirtualMachineCloneSpec, error) {
	changes, err := devices(shape, place)
	if err != nil {
		return types.VirtualMachineCloneSpec{}, err
	}
	spec := types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{
			Pool:         &place.Pool,
			Host:         place.Host,
			Datastore:    place.Datastore,
			DiskMoveType: string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndConsolidate),
			Profile:      profile(place),
		},
		Snapshot: place.Snapshot,
		Config: &types.VirtualMachineConfigSpec{
			InstanceUuid: shape.UUID,
			Uuid:         shape.UUID,
			NumCPUs:      shape.CPUs,
			MemoryMB:     shape.MemoryMiB,
			ExtraConfig:  Options(shape.ExtraConfig),
			DeviceChange: changes,
			VmProfile:    profile(place),
		},
	}
	if shape.CoresPerSocket > 0 {
		spec.Config.NumCoresPerSocket = &shape.CoresPerSocket
	}
	if shape.Linked {
		spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
	}
	return spec, nil
}

// Options returns advanced parameters in a stable order.
func Options(values map[string]string) []types.BaseOptionValue {
	var options []types.BaseOptionValue
	for _, key := range slices.Sorted(maps.Keys(values)) {
		options = append(options, &types.OptionValue{Key: key, Value: values[key]})
	}
	return options
}

func profile(place vcenter.Placement) []types.BaseVirtualMachineProfileSpec {
	if place.Profile == "" {
		return nil
	}
	return []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: place.Profile}}
}

func devices(shape Shape, place vcenter.Placement) ([]types.BaseVirtualDeviceConfigSpec, error) {
	var changes []types.BaseVirtualDeviceConfigSpec
	for _, step := range []func(Shape, vcenter.Placement) ([]types.BaseVirtualDeviceConfigSpec, error){growDisk, addDisks, networkCards} {
		more, err := step(shape, place)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// growDisk enlarges the first disk.
func growDisk(shape Shape, place vcenter.Placement) ([]types.BaseVirtualDeviceConfigSpec, error) {
	if shape.DiskGiB == 0 {
		return nil, nil
	}
	disks := place.Devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) == 0 {
		return nil, &ShapeError{"spec.diskGiB", errors.New("the template has no disk")}
	}
	first := *disks[0].(*types.VirtualDisk)
	size := max(first.CapacityInBytes, first.CapacityInKB*1024)
	switch {
	case size > shape.DiskGiB*gib:
		return nil, &ShapeError{"spec.diskGiB", fmt.Errorf("a disk cannot shrink, and the template's has %d GiB", (size+gib-1)/gib)}
	case size == shape.DiskGiB*gib:
		return nil, nil
	}
	first.CapacityInBytes, first.CapacityInKB = shape.DiskGiB*gib, shape.DiskGiB*gib/1024
	return []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationEdit,
		Device:    &first,
		Profile:   profile(place),
	}}, nil
}

// addDisks adds the empty disks on the controller of the first disk.
func addDisks(shape Shape, place vcenter.Placement) ([]types.BaseVirtualDeviceConfigSpec, error) {
	if len(shape.Disks) == 0 {
		return nil, nil
	}
	controller, err := place.Devices.FindDiskController("")
	if err != nil {
		return nil, &ShapeError{"spec.disks", fmt.Errorf("the template has no controller to attach disks to: %w", err)}
	}
	var changes []types.BaseVirtualDeviceConfigSpec
	all := slices.Clone(place.Devices)
	for i, wanted := range shape.Disks {
		thin, wiped := wanted.Provisioning == "" || wanted.Provisioning == infrav1.VSphereThin, wanted.Provisioning == infrav1.VSphereEagerlyZeroed
		disk := &types.VirtualDisk{
			VirtualDevice: types.VirtualDevice{
				// A negative key stands for a device that has none yet.
				Key: int32(-100 - i),
				Backing: &types.VirtualDiskFlatVer2BackingInfo{
					DiskMode:        string(types.VirtualDiskModePersistent),
					ThinProvisioned: &thin,
					EagerlyScrub:    &wiped,
				},
			},
			CapacityInBytes: wanted.SizeGiB * gib,
			CapacityInKB:    wanted.SizeGiB * gib / 1024,
		}
		unit, ok := freeUnit(all, controller)
		if !ok {
			return nil, &ShapeError{fmt.Sprintf("spec.disks[%d]", i), errors.New("the template's disk controller has no room left")}
		}
		disk.ControllerKey, disk.UnitNumber = controller.GetVirtualController().Key, &unit
		all = append(all, disk)
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation:     types.VirtualDeviceConfigSpecOperationAdd,
			FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate,
			Device:        disk,
			Profile:       profile(place),
		})
	}
	return changes, nil
}

// freeUnit finds a place on a controller without changing it, as the SDK would: places are shared.
func freeUnit(all object.VirtualDeviceList, controller types.BaseVirtualController) (int32, bool) {
	taken := map[int32]bool{}
	if scsi, ok := controller.(types.BaseVirtualSCSIController); ok {
		taken[scsi.GetVirtualSCSIController().ScsiCtlrUnitNumber] = true
	}
	for _, device := range all {
		if known := device.GetVirtualDevice(); known.ControllerKey == controller.GetVirtualController().Key && known.UnitNumber != nil {
			taken[*known.UnitNumber] = true
		}
	}
	for unit := range int32(units) {
		if !taken[unit] {
			return unit, true
		}
	}
	return 0, false
}

// networkCards replaces the network cards of the template.
func networkCards(shape Shape, place vcenter.Placement) ([]types.BaseVirtualDeviceConfigSpec, error) {
	if len(shape.Networks) == 0 {
		return nil, nil
	}
	var changes []types.BaseVirtualDeviceConfigSpec
	for _, old := range place.Devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: old})
	}
	for i, network := range shape.Networks {
		kind := network.Adapter
		if kind == "" {
			kind = "vmxnet3"
		}
		device, err := place.Devices.CreateEthernetCard(kind, place.Networks[i])
		if err != nil {
			return nil, &ShapeError{fmt.Sprintf("spec.networks[%d].adapter", i), err}
		}
		card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
		card.Key, card.AddressType = int32(-200-i), string(types.VirtualEthernetCardMacTypeGenerated)
		card.Connectable = &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true}
		if network.MACAddress != "" {
			card.AddressType, card.MacAddress = string(types.VirtualEthernetCardMacTypeManual), network.MACAddress
		}
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: device})
	}
	return changes, nil
}
