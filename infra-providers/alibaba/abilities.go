// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"

	"drover.io/infra-providers/driver"
)

// AccountID implements driver.AccountIdentifier. It is the number of the account, with the domain of Alibaba Cloud, or the host
// of the private cloud that the operator configured.
func (d *Driver) AccountID(ctx context.Context) (string, error) { return d.client.accountID(ctx) }

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	return d.lookup.Capacity(ctx, config.Spec)
}

// FindImage implements driver.ImageFinder.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, err
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The instance is tagged last, because its tags decide whether Tag is complete: after a failure
// the next attempt repeats all of it.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	disks, err := d.ownDisks(ctx, found.Identity)
	if err != nil {
		return err
	}
	nics, err := d.ownInterfaces(ctx, found.ID)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		kind string
		ids  []string
	}{{"disk", disks}, {"eni", nics}, {"instance", []string{found.ID}}} {
		if err := d.tag(ctx, of.kind, of.ids, id); err != nil {
			return err
		}
	}
	return nil
}

// maxTagged is the maximum number of resources that one call tags.
const maxTagged = 50

// tag puts the owner into the tags of resources of one kind.
func (d *Driver) tag(ctx context.Context, kind string, resources []string, id driver.Identity) error {
	for some := range slices.Chunk(resources, maxTagged) {
		change := (&ecs.TagResourcesRequest{ResourceId: dara.StringSlice(some)}).SetRegionId(d.region).SetResourceType(kind)
		tags := id.Tags()
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			change.Tag = append(change.Tag, (&ecs.TagResourcesRequestTag{}).SetKey(key).SetValue(tags[key]))
		}
		if err := d.client.tagResources(ctx, change); err != nil {
			return fmt.Errorf("tagging the %s: %w", kind, toError(err))
		}
	}
	return nil
}

// ownDisks returns the IDs of the disks that were created with an instance, also of those that were detached.
func (d *Driver) ownDisks(ctx context.Context, owner driver.Identity) (own []string, err error) {
	query := &ecs.DescribeDisksRequest{Tag: []*ecs.DescribeDisksRequestTag{
		(&ecs.DescribeDisksRequestTag{}).SetKey(driver.TagMachineUID).SetValue(string(owner.UID)),
	}}
	for disk, err := range d.describeDisks(ctx, query) {
		if err != nil {
			return nil, err
		}
		isSystem := dara.StringValue(disk.Type) == systemDisk
		if isSystem && owner.Check(diskIdentity(disk)) == nil || isOwn(disk, owner) {
			own = append(own, dara.StringValue(disk.DiskId))
		}
	}
	slices.Sort(own)
	return own, nil
}

// ownInterfaces returns the ID of the network interface that was created with an instance.
func (d *Driver) ownInterfaces(ctx context.Context, id string) (own []string, err error) {
	for listed, err := range d.describe(ctx, (&ecs.DescribeInstancesRequest{}).SetInstanceIds(ids(id))) {
		if err != nil {
			return nil, err
		}
		if primary := primaryInterface(listed); primary != nil {
			own = append(own, dara.StringValue(primary.NetworkInterfaceId))
		}
	}
	return own, nil
}

// Restart implements driver.Restarter. It switches the instance off and on.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	err = toError(d.client.rebootInstance(ctx, (&ecs.RebootInstanceRequest{}).SetInstanceId(found.ID).SetForceStop(true)))
	if driver.IsNotFound(err) {
		return errNotListedYet
	}
	return err
}

// Console implements driver.ConsoleReader.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	answer, err := d.client.consoleOutput(ctx, (&ecs.GetInstanceConsoleOutputRequest{}).SetRegionId(d.region).SetInstanceId(found.ID))
	if err != nil {
		if err = toError(err); driver.IsNotFound(err) {
			return nil, errNotListedYet
		}
		return nil, err
	}
	output, err := base64.StdEncoding.DecodeString(dara.StringValue(answer.ConsoleOutput))
	if err != nil {
		return nil, fmt.Errorf("decoding the console of instance %s: %w", found.ID, err)
	}
	return driver.LastOutput(output), nil
}
