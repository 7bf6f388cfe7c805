// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/vcenter"
)

// initialDisks returns the UUIDs of the disks of a virtual machine that never ran. Until then no other disk is attached.
func initialDisks(vm VM) string {
	var uuids []string
	for _, disk := range disks(vm) {
		if uuid := diskUUID(disk); uuid != "" {
			uuids = append(uuids, uuid)
		}
	}
	return strings.Join(uuids, ",")
}

// detachForeignDisks detaches what others attached, such as a volume of a CSI driver or the disk that a backup reads:
// the destruction of a virtual machine destroys every disk on it.
func detachForeignDisks(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	spec := types.VirtualMachineConfigSpec{}
	for _, disk := range disks(vm) {
		if isForeign(vm, disk) {
			// Without a file operation the disk stays where it is stored.
			spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationRemove,
				Device:    disk,
			})
		}
	}
	if len(spec.DeviceChange) == 0 {
		return nil, nil
	}
	return start(object.NewVirtualMachine(client, vm.Self).Reconfigure(ctx, spec))
}

// isForeign reports whether a disk was attached after the virtual machine was created: it is not among its initial disks,
// or it is a first class disk, which outlives virtual machines and which a template does not have.
func isForeign(vm VM, disk *types.VirtualDisk) bool {
	if disk.VDiskId != nil && disk.VDiskId.Id != "" {
		return true
	}
	uuid := diskUUID(disk)
	for _, option := range vm.Config.ExtraConfig {
		if option.GetOptionValue().Key == vcenter.DisksKey {
			known, _ := option.GetOptionValue().Value.(string)
			return uuid != "" && !slices.Contains(strings.Split(known, ","), uuid)
		}
	}
	return false // it never ran, so that its initial disks are not recorded
}

func disks(vm VM) (found []*types.VirtualDisk) {
	for _, device := range vm.Config.Hardware.Device {
		if disk, ok := device.(*types.VirtualDisk); ok {
			found = append(found, disk)
		}
	}
	return found
}

// diskUUID returns the UUID of a disk, which stays the same when its file is moved; empty for a backing without one.
func diskUUID(disk *types.VirtualDisk) string {
	switch backing := disk.Backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return backing.Uuid
	case *types.VirtualDiskSeSparseBackingInfo:
		return backing.Uuid
	case *types.VirtualDiskSparseVer2BackingInfo:
		return backing.Uuid
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return backing.Uuid
	case *types.VirtualDiskRawDiskVer2BackingInfo:
		return backing.Uuid
	default:
		return ""
	}
}
