// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"

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
	if err = kind(err); driver.IsNotFound(err) {
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
	resources := []string{found.ID}
	pages := ec2.NewDescribeTagsPaginator(d.api, &ec2.DescribeTagsInput{Filters: []types.Filter{
		{Name: aws.String("key"), Values: []string{driver.TagMachineUID}},
		{Name: aws.String("value"), Values: []string{string(id.UID)}},
		{Name: aws.String("resource-type"), Values: []string{"volume", "network-interface", "spot-instances-request"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return kind(err)
		}
		for _, beside := range page.Tags {
			resources = append(resources, aws.ToString(beside.ResourceId))
		}
	}
	_, err = d.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: resources, Tags: launch.Tags(id.Tags())})
	return kind(err)
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
