// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. Azure deletes the network interface, the public address and the disks with the virtual machine;
// each that is still there without one is deleted by itself. The network interface goes before the conclusion that nothing is
// left: without it no request that is still under way can make a virtual machine.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return d.deleteRemaining(ctx, d.withUID(id))
	}
	instance, err := id.Checked(d.toInstance(found))
	if err != nil {
		return err
	}
	if id.UID == "" {
		d.uids.Set(id, instance.Identity.UID)
		id.UID = instance.Identity.UID
	}
	return d.deleteVirtualMachine(ctx, id, found)
}

// deleteVirtualMachine deletes a virtual machine after it has made sure that no disk or network interface of another owner is
// deleted with it.
func (d *Driver) deleteVirtualMachine(ctx context.Context, id driver.Identity, found *armcompute.VirtualMachine) error {
	if provisioning(found) == deleting {
		return nil
	}
	name := ptr.Deref(found.Name, "")
	if keep := sparing(found, id); keep != nil {
		_, err := d.vms.BeginUpdate(ctx, d.place.ResourceGroup, name, *keep, nil)
		if err != nil && !isNotFound(err) {
			return fmt.Errorf("keeping the disks of others: %w", toError(err))
		}
		return nil // that takes a moment; the instance is not being deleted, so Delete is called again
	}
	own := dataDisksOf(found, id)
	d.dataDisks.Set(machineKey(id), own)
	// A forced deletion may release disks before the host has stopped, and is for disks that are not used again.
	forced := ptr.To(len(own) == len(disksOf(found)))
	_, err := d.vms.BeginDelete(ctx, d.place.ResourceGroup, name, &armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: forced})
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("deleting virtual machine: %w", toError(err))
	}
	return nil
}

// disksOf returns the data disks of a virtual machine, its own and those of others.
func disksOf(found *armcompute.VirtualMachine) []*armcompute.DataDisk {
	if found.Properties == nil || found.Properties.StorageProfile == nil {
		return nil
	}
	return found.Properties.StorageProfile.DataDisks
}

// dataDisksOf returns the names of the machine's own data disks that a virtual machine has.
func dataDisksOf(found *armcompute.VirtualMachine, id driver.Identity) (names []string) {
	for _, disk := range disksOf(found) {
		if name := ptr.Deref(disk.Name, ""); isDataDisk(name, id) {
			names = append(names, name)
		}
	}
	return names
}

// sparing returns the change after which nothing of others is deleted with a virtual machine, or nil if there is none to make.
func sparing(found *armcompute.VirtualMachine, id driver.Identity) *armcompute.VirtualMachineUpdate {
	if found.Properties == nil {
		return nil
	}
	change, needed := &armcompute.VirtualMachineUpdate{Properties: &armcompute.VirtualMachineProperties{}}, false
	own := request.Name(id.UID)
	if storage := found.Properties.StorageProfile; storage != nil {
		for _, disk := range storage.DataDisks {
			if ptr.Deref(disk.DeleteOption, "") == armcompute.DiskDeleteOptionTypesDelete && !isDataDisk(ptr.Deref(disk.Name, ""), id) {
				disk.DeleteOption, needed = ptr.To(armcompute.DiskDeleteOptionTypesDetach), true
			}
		}
		change.Properties.StorageProfile = &armcompute.StorageProfile{DataDisks: storage.DataDisks}
	}
	for _, nic := range interfacesOf(found) {
		if nic.Properties != nil && ptr.Deref(nic.Properties.DeleteOption, "") == armcompute.DeleteOptionsDelete && request.Last(ptr.Deref(nic.ID, "")) != own {
			nic.Properties.DeleteOption, needed = ptr.To(armcompute.DeleteOptionsDetach), true
		}
	}
	change.Properties.NetworkProfile = &armcompute.NetworkProfile{NetworkInterfaces: interfacesOf(found)}
	if !needed {
		return nil
	}
	return change
}

// deleteRemaining deletes what is left of a machine without a virtual machine. A network interface can be deleted only once it
// is attached to none, and a public address only once it is attached to no network interface, so that may take several calls.
func (d *Driver) deleteRemaining(ctx context.Context, id driver.Identity) error {
	left, err := d.remaining(ctx, id)
	if err != nil {
		return err
	}
	detached := map[string]bool{}
	for _, found := range left {
		if found.deleting || found.used && (found.kind != addressKind || !detached[interfaceKind]) {
			continue
		}
		if err := d.deleteAttached(ctx, found); err != nil {
			return err
		}
		if found.kind == interfaceKind {
			nic, err := d.readInterface(ctx, id)
			if err != nil {
				return err
			}
			detached[interfaceKind] = nic == nil
		}
	}
	d.refusals.Delete(machineKey(id))
	return nil
}

// deleteDetached deletes those of the disks that are attached to no virtual machine.
func (d *Driver) deleteDetached(ctx context.Context, disks []attached) error {
	for _, disk := range disks {
		if disk.used || disk.deleting {
			continue
		}
		if err := d.deleteAttached(ctx, disk); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) deleteAttached(ctx context.Context, found attached) (err error) {
	switch found.kind {
	case interfaceKind:
		_, err = d.nics.BeginDelete(ctx, d.place.ResourceGroup, found.name, nil)
	case addressKind:
		_, err = d.addresses.BeginDelete(ctx, d.place.ResourceGroup, found.name, nil)
	default:
		_, err = d.disks.BeginDelete(ctx, d.place.ResourceGroup, found.name, nil)
	}
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s %q: %w", found.kind, found.name, toError(err))
	}
	logr.FromContextOrDiscard(ctx).Info("deleted "+found.kind, "name", found.name)
	return nil
}
