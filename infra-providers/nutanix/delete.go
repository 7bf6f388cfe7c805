// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/nutanix/prism"
)

// Delete implements driver.Driver. All disks and network interfaces are deleted with the virtual machine. Volume groups, as the
// CSI driver attaches them, are detached before.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	for _, vm := range found {
		if _, err := id.Checked(vm.instance); err != nil {
			return err
		}
	}
	for _, vm := range found {
		if err := d.deleteVM(ctx, vm); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		d.creations.Forget(id)
		d.shortages.Delete(inflight.Machine(id))
	}
	return nil
}

// deleteVM takes the next step of the deletion of a virtual machine, or none while the one before is under way.
func (d *Driver) deleteVM(ctx context.Context, vm virtualMachine) error {
	id := vm.instance.ID
	if deleting, err := d.isChanging(ctx, id); err != nil || deleting || d.hasFailed(id) {
		return err
	}
	if slices.Contains(vm.groups, "") { // it would be the key of what is remembered
		return fmt.Errorf("the virtual machine %q has a volume group without an ID", id)
	}
	for _, group := range vm.groups {
		if err := d.detach(ctx, group, id); err != nil {
			return fmt.Errorf("detaching the volume group %q: %w", group, err)
		}
	}
	if len(vm.groups) > 0 {
		return nil // that takes a moment; the virtual machine is not being deleted, so Delete is called again
	}
	task, err := d.prism.DeleteVM(ctx, id, vm.etag, randomUUID(uuid.New()))
	if prism.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return toError(err)
	}
	d.begin(id, task)
	return nil
}

// detach detaches a volume group, unless that is under way.
func (d *Driver) detach(ctx context.Context, group, vmID string) error {
	key := attachment(group, vmID)
	task, err := d.changeOf(ctx, key)
	if hasSucceeded(task) {
		d.changes.Delete(key) // if it is still attached when it is read next, it was attached again
	}
	if err != nil || task != nil || d.hasFailed(key) {
		return err
	}
	begun, err := d.prism.DetachVolumeGroup(ctx, group, vmID, randomUUID(uuid.New()))
	if err != nil {
		return toError(err)
	}
	d.begin(key, begun)
	return nil
}
