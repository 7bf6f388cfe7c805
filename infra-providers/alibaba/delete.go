// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"fmt"
	"iter"

	"github.com/alibabacloud-go/tea/dara"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"

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

// keepForeignDisks makes ECS keep the disks that others attached, such as the volumes of a Node that was lost before they were
// detached, and that would be released with the instance.
func (d *Driver) keepForeignDisks(ctx context.Context, instance driver.Instance) error {
	query := (&ecs.DescribeDisksRequest{}).SetInstanceId(instance.ID)
	for disk, err := range d.describeDisks(ctx, query) {
		if err != nil {
			return fmt.Errorf("reading the disks of the instance: %w", err)
		}
		if dara.StringValue(disk.Type) == systemDisk || !dara.BoolValue(disk.DeleteWithInstance) || instance.Identity.Check(diskIdentity(disk)) == nil {
			continue
		}
		change := (&ecs.ModifyDiskAttributeRequest{}).SetDiskId(dara.StringValue(disk.DiskId)).SetDeleteWithInstance(false)
		if err := d.client.modifyDisk(ctx, change); err != nil {
			return fmt.Errorf("keeping the disk %s, which others attached: %w", dara.StringValue(disk.DiskId), toError(err))
		}
	}
	return nil
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
