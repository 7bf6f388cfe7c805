// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	size, err := d.lookup.Capacity(ctx, config.Spec)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, config)
	}
	return size, nil
}

// FindImage implements driver.ImageFinder. The image is empty where a launch template chooses it.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, toCreateError(err, config)
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. Resources that were created with the instance are found by the machine's tags:
// volumes and network interfaces that were attached later keep their tags.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	created, err := d.createdResources(ctx, found.Identity)
	if err != nil {
		return err
	}
	_, err = d.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: append(created, found.ID), Tags: launch.Tags(id.Tags())})
	return toError(err)
}

// taggedResourceTypes are the types of resources that are created with an instance and get its tags.
var taggedResourceTypes = []string{"volume", "network-interface", "spot-instances-request"}

// maxFilterValues is the maximum number of values in a filter of EC2.
const maxFilterValues = 200

// createdResources returns the IDs of the resources that were created with an instance: those with the same ownership
// tags. A UID alone is not enough, because the author of a machine may choose it.
func (d *Driver) createdResources(ctx context.Context, owner driver.Identity) ([]string, error) {
	sameUID, err := d.describeTags(ctx, types.Filter{Name: aws.String("key"), Values: []string{driver.TagMachineUID}},
		types.Filter{Name: aws.String("value"), Values: []string{filterEscaper.Replace(string(owner.UID))}})
	if err != nil {
		return nil, err
	}
	var own []string
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(sameUID)), maxFilterValues) {
		all, err := d.describeTags(ctx, types.Filter{Name: aws.String("resource-id"), Values: ids})
		if err != nil {
			return nil, err
		}
		for id, tags := range all {
			if at, ok := driver.FromTags(tags); ok && owner.Check(at) == nil {
				own = append(own, id)
			}
		}
	}
	slices.Sort(own)
	return own, nil
}

// describeTags returns the tags that match the filters, by the ID of the resource.
func (d *Driver) describeTags(ctx context.Context, filters ...types.Filter) (map[string]map[string]string, error) {
	filters = append(filters, types.Filter{Name: aws.String("resource-type"), Values: taggedResourceTypes})
	found := map[string]map[string]string{}
	pages := ec2.NewDescribeTagsPaginator(d.api, &ec2.DescribeTagsInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, toError(err)
		}
		for _, tag := range page.Tags {
			id := aws.ToString(tag.ResourceId)
			if found[id] == nil {
				found[id] = map[string]string{}
			}
			found[id][aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
	}
	return found, nil
}

// Restart implements driver.Restarter. EC2 has no reset: it requests a reboot of the guest, and resets a guest that
// has not rebooted after some minutes.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.api.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{found.ID}})
	if err = toError(err); driver.IsNotFound(err) {
		return errNotListedYet
	}
	return err
}

// Console implements driver.ConsoleReader. Only instances on Nitro have their output at once; of others EC2 keeps that of the
// time of the last boot, some minutes later.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	request := &ec2.GetConsoleOutputInput{InstanceId: aws.String(found.ID), Latest: aws.Bool(true)}
	answer, err := d.api.GetConsoleOutput(ctx, request)
	if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "UnsupportedOperation" {
		request.Latest = nil
		answer, err = d.api.GetConsoleOutput(ctx, request)
	}
	if err != nil {
		return nil, toError(err)
	}
	output, err := base64.StdEncoding.DecodeString(aws.ToString(answer.Output))
	if err != nil {
		return nil, fmt.Errorf("decoding the console of instance %s: %w", found.ID, err)
	}
	return driver.LastOutput(output), nil
}
