// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// Restart implements driver.Restarter. EC2 has no reset: it asks the guest to reboot, and resets one that has not
// after some minutes.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.Restartable(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.api.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{found.ID}})
	if err = toError(err); driver.IsNotFound(err) {
		return errUnlisted
	}
	return err
}

// Tag implements driver.Tagger. What was made beside the instance is found by the machine's UID on it: volumes
// and network interfaces that others have attached since keep their tags.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	beside, err := d.beside(ctx, found.Identity)
	if err != nil {
		return err
	}
	_, err = d.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: append(beside, found.ID), Tags: launch.Tags(id.Tags())})
	return toError(err)
}

// besideKinds are the kinds of resources that are made with an instance and get its tags.
var besideKinds = []string{"volume", "network-interface", "spot-instances-request"}

// mostTagged is how many values a filter of EC2 takes at most.
const mostTagged = 200

// beside returns the IDs of the resources that were made with an instance: those whose tags name all that its own name.
// A UID alone is not enough, because whoever makes a machine may choose it.
func (d *Driver) beside(ctx context.Context, owner driver.Identity) ([]string, error) {
	sameUID, err := d.tagged(ctx, types.Filter{Name: aws.String("key"), Values: []string{driver.TagMachineUID}},
		types.Filter{Name: aws.String("value"), Values: []string{literal.Replace(string(owner.UID))}})
	if err != nil {
		return nil, err
	}
	var own []string
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(sameUID)), mostTagged) {
		all, err := d.tagged(ctx, types.Filter{Name: aws.String("resource-id"), Values: ids})
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

// tagged returns the tags that match the filters, by the ID of what is made with an instance.
func (d *Driver) tagged(ctx context.Context, filters ...types.Filter) (map[string]map[string]string, error) {
	filters = append(filters, types.Filter{Name: aws.String("resource-type"), Values: besideKinds})
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

// Size implements driver.Sizer.
func (d *Driver) Size(ctx context.Context, config Config) (driver.Size, error) {
	size, err := d.lookup.Size(ctx, config.Spec)
	if err != nil {
		return driver.Size{}, refused(err, config)
	}
	return size, nil
}

// FindImage implements driver.ImageFinder. An image that is left to a launch template stays unknown.
func (d *Driver) FindImage(ctx context.Context, config Config) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, refused(err, config)
	}
	return toImage(found), nil
}
