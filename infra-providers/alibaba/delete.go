// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"fmt"
	"iter"

	"github.com/alibabacloud-go/tea/dara"
	"github.com/go-logr/logr"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"

	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. One call releases an instance with all that was created with it.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	for _, instance := range found {
		if err := id.Check(instance.Identity); err != nil {
			return err
		}
	}
	for _, instance := range found {
		if err := d.release(ctx, instance); err != nil {
			return err
		}
		d.creations.Delete(instance.Identity)
	}
	return nil
}

func (d *Driver) release(ctx context.Context, instance driver.Instance) error {
	if err := d.keepForeignDisks(ctx, instance); err != nil {
		return err
	}
	switch err := d.client.deleteInstance(ctx, (&ecs.DeleteInstanceRequest{}).SetInstanceId(instance.ID).SetForce(true)); {
	case errorCode(err) == codeInitializing:
		return &driver.UnfinishedError{Err: fmt.Errorf("the instance %s is being created, and can be released when that has ended", instance.ID)}
	case err != nil:
		if err = toError(err); driver.IsNotFound(err) {
			return errNotListedYet
		}
		return err
	}
	d.released.Set(instance.ProviderID, true)
	return nil
}

// keepForeignDisks makes ECS keep the disks that were not created with the instance, such as the volumes of a Node that was lost
// before they were detached, and that would be released with it. It fails where that cannot be made sure.
func (d *Driver) keepForeignDisks(ctx context.Context, instance driver.Instance) error {
	query, complete := (&ecs.DescribeDisksRequest{}).SetInstanceId(instance.ID), false
	for disk, err := range d.describeDisks(ctx, query) {
		switch {
		case err != nil:
			return fmt.Errorf("reading the disks of the instance: %w", err)
		case dara.StringValue(disk.Type) == systemDisk:
			complete = true
		case isFixed(disk), isOwn(disk, instance.Identity): // it was created with the instance
		default:
			if err := d.keepDisk(ctx, instance, disk); err != nil {
				return err
			}
		}
	}
	if complete {
		return nil
	}
	// The list may be empty because it is not permitted.
	if err := d.client.checkDescribeDisks(ctx, instance.ID); err != nil {
		return fmt.Errorf("reading the disks of the instance: %w", err)
	}
	return nil
}

// isOwn reports whether a data disk was created with the instance of a machine, by its tags and its name. Tags alone do not prove it:
// with the inheritance of tags, which an account may have turned on, a disk gets those of the instance that it is attached to.
func isOwn(disk *ecs.DescribeDisksResponseBodyDisksDisk, id driver.Identity) bool {
	return id.Check(diskIdentity(disk)) == nil && request.IsDiskName(id, dara.StringValue(disk.DiskName))
}

// keepDisk makes ECS keep a disk that was not created with the instance.
func (d *Driver) keepDisk(ctx context.Context, instance driver.Instance, disk *ecs.DescribeDisksResponseBodyDisksDisk) error {
	id, locked := dara.StringValue(disk.DiskId), isLockedForSecurity(instance)
	switch {
	case !dara.BoolValue(disk.DeleteWithInstance) && !locked:
		return nil
	case !isTagged(disk) && d.mayBeNew(instance):
		return &driver.UnfinishedError{Err: fmt.Errorf("the instance %s was created a moment ago, and ECS does not show the tags of its disk %s yet", instance.ID, id)}
	case locked:
		return fmt.Errorf("%s, and would release the disk %s with it, which does not have the tags and the name of a disk of the machine: have the lock removed, before which no disk can be detached, or release the instance yourself", securityLock, id)
	}
	if err := d.client.modifyDisk(ctx, (&ecs.ModifyDiskAttributeRequest{}).SetDiskId(id).SetDeleteWithInstance(false)); err != nil {
		return fmt.Errorf("keeping the disk %s, which does not have the tags and the name of a disk of the machine: %w", id, toError(err))
	}
	logr.FromContextOrDiscard(ctx).Info("kept disk", "disk", id)
	return nil
}

// mayBeNew reports whether an instance may have been created a moment ago, so that ECS may not show the tags of its disks yet.
func (d *Driver) mayBeNew(instance driver.Instance) bool {
	_, created := d.creations.Instance(driver.Identity{ProviderID: instance.ProviderID})
	return created || d.creations.Unanswered(instance.Identity) || d.creations.InStartupWindow()
}

// isFixed reports whether a disk cannot be detached, as a local one: it was created with its instance, and ECS refuses to keep it.
func isFixed(disk *ecs.DescribeDisksResponseBodyDisksDisk) bool {
	return disk.Portable != nil && !*disk.Portable
}

// isTagged reports whether ECS shows any tags of a disk.
func isTagged(disk *ecs.DescribeDisksResponseBodyDisksDisk) bool {
	return disk.Tags != nil && len(disk.Tags.Tag) > 0
}

// systemDisk is the type of a system disk.
const systemDisk = "system"

// describeDisks yields the disks that match a query, page by page, and a failure last.
func (d *Driver) describeDisks(ctx context.Context, query *ecs.DescribeDisksRequest) iter.Seq2[*ecs.DescribeDisksResponseBodyDisksDisk, error] {
	query.SetRegionId(d.region)
	query.SetMaxResults(d.pageSize)
	return pages(func(token *string) ([]*ecs.DescribeDisksResponseBodyDisksDisk, *string, error) {
		query.NextToken = token
		answer, err := d.client.describeDisks(ctx, query)
		if err != nil {
			return nil, nil, err
		}
		return answer.Disks.Disk, answer.NextToken, nil
	})
}

// diskIdentity returns the identity in the tags of a disk.
func diskIdentity(disk *ecs.DescribeDisksResponseBodyDisksDisk) driver.Identity {
	tags := map[string]string{}
	if disk.Tags != nil {
		for _, tag := range disk.Tags.Tag {
			tags[dara.StringValue(tag.TagKey)] = dara.StringValue(tag.TagValue)
		}
	}
	identity, _ := driver.FromTags(tags)
	return identity
}
