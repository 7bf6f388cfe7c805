// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"fmt"
	"slices"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
)

// Delete implements driver.Driver. The disks that are attached to the instance are deleted with it; those that an unfinished
// creation left, or that were detached, are deleted by themselves. Get reports an instance that is Stopping as long as there
// are any.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found != nil {
		instance, err := id.Checked(toInstance(found))
		if err != nil {
			return err
		}
		if id.UID == "" {
			d.uids.Set(id, instance.Identity.UID)
		}
		id.UID = instance.Identity.UID
	}
	id = d.withUID(id)
	own, err := d.ownDisks(ctx, id)
	if err != nil {
		return err
	}
	for _, disk := range own {
		if len(disk.InstanceIds) > 0 || disk.Status == compute.Disk_CREATING {
			continue // it is deleted with the instance, or cannot be deleted yet
		}
		if err := d.deleteDisk(ctx, disk); err != nil {
			return err
		}
	}
	if found != nil {
		return d.deleteInstance(ctx, id, found, own)
	}
	if d.unanswered(id) {
		return errNotListedYet
	}
	if len(own) == 0 {
		d.creations.Forget(id)
	}
	return nil
}

// withUID returns an identity with the UID that a restore lost, if the deletion of its instance found it.
func (d *Driver) withUID(id driver.Identity) driver.Identity {
	if known, ok := d.uids.Get(id); ok && id.UID == "" {
		id.UID = known
	}
	return id
}

// remaining returns the disks that are left of a machine without an instance as an instance that is Stopping, and fails with
// NotFoundError if there are none.
func (d *Driver) remaining(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	id = d.withUID(id)
	if d.unanswered(id) {
		return driver.Instance{}, errNotListedYet
	}
	left, err := d.ownDisks(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(left) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("instance of %q", id.Name)}
	}
	stepDue := slices.ContainsFunc(left, func(disk *compute.Disk) bool { return disk.Status != compute.Disk_DELETING })
	message := fmt.Sprintf("there is no instance, and the disk %q remains", left[0].Name)
	if attached := left[0].InstanceIds; len(attached) > 0 {
		message += fmt.Sprintf(", attached to the instance %q", attached[0])
	}
	return driver.Instance{
		ID: id.Name, ProviderID: id.ProviderID, Identity: id, State: driver.Stopping, StepDue: stepDue, PollAfter: pollInterval, Message: message,
	}, nil
}

// deleteInstance deletes an instance after it has made sure that no disk of another owner is deleted with it.
func (d *Driver) deleteInstance(ctx context.Context, id driver.Identity, found *compute.Instance, own []*compute.Disk) error {
	if found.Status == compute.Instance_DELETING {
		return nil
	}
	foreign, err := d.foreignDisks(ctx, id, found, own)
	if err != nil {
		return err
	}
	for _, attached := range foreign {
		if attached.DiskId == found.BootDisk.GetDiskId() {
			return fmt.Errorf("the boot disk %q would be deleted with the instance and has not the labels of this machine", attached.DiskId)
		}
		detach := &compute.DetachInstanceDiskRequest{InstanceId: found.Id, Disk: &compute.DetachInstanceDiskRequest_DiskId{DiskId: attached.DiskId}}
		if _, err := d.instances.DetachDisk(ctx, detach); err != nil {
			return fmt.Errorf("detaching the disk %q of another owner: %w", attached.DiskId, toError(err))
		}
	}
	if len(foreign) > 0 {
		return nil // that takes a moment; the instance is not being deleted, so Delete is called again
	}
	_, err = d.instances.Delete(ctx, &compute.DeleteInstanceRequest{InstanceId: found.Id})
	if err != nil && !isNotFound(err) {
		return toError(err)
	}
	return nil
}

// foreignDisks returns the attached disks that the deletion of an instance would delete and that are not the machine's own.
func (d *Driver) foreignDisks(ctx context.Context, id driver.Identity, found *compute.Instance, own []*compute.Disk) (foreign []*compute.AttachedDisk, err error) {
	for _, attached := range append([]*compute.AttachedDisk{found.BootDisk}, found.SecondaryDisks...) {
		if !attached.GetAutoDelete() || slices.ContainsFunc(own, func(disk *compute.Disk) bool { return disk.Id == attached.DiskId }) {
			continue
		}
		disk, err := d.readDisk(ctx, attached.DiskId)
		if err != nil {
			return nil, err
		}
		if disk == nil {
			continue
		}
		// A boot disk may have been renamed, and cannot be detached.
		renamed := isCopy(disk) && attached != found.BootDisk
		if renamed || id.Check(label.Decode(disk.Labels)) != nil {
			foreign = append(foreign, attached)
		}
	}
	return foreign, nil
}
