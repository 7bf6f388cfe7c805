// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
	"drover.io/runtime/expiring"
)

// cacheTTL is how long an answer is cached: long enough for a burst of machines, short enough for a new image or subnet
// to be found soon.
const cacheTTL = time.Minute

// maxAnswers bounds the cached answers of an account.
const maxAnswers = 1000

// imagePageSize and maxImagePages bound a look-up of images: the owners and the name of a spec may match all public images of a region.
const imagePageSize, maxImagePages = 1000, 50

var (
	errTooMany = fmt.Errorf("more than %d pages of images match: make the name more specific, or name fewer owners", maxImagePages)
	errNoImage = errors.New("no available image of these owners matches")
	errNoGroup = errors.New("no security group matches")
)

// API lists the calls of EC2 in use.
type API interface {
	ec2.DescribeImagesAPIClient
	ec2.DescribeSubnetsAPIClient
	ec2.DescribeSecurityGroupsAPIClient
	ec2.DescribeInstanceTypesAPIClient
}

// Lookup finds resources by their filters.
type Lookup struct {
	api     API
	answers expiring.Map[string, any]
}

// NewLookup returns a Lookup with an empty cache.
func NewLookup(api API, clock clock.PassiveClock) *Lookup {
	l := &Lookup{api: api}
	l.answers.Clock, l.answers.TTL, l.answers.Max = clock, cacheTTL, maxAnswers
	return l
}

// Image returns the image of a spec: by its ID, or the newest one that matches. An ID that does not exist is EC2's
// error. It is the zero image where a launch template chooses it.
func (l *Lookup) Image(ctx context.Context, spec infrav1.AWSMachineSpec) (types.Image, error) {
	want := spec.Image
	if want.ID == "" && want.Name == "" {
		return types.Image{}, nil
	}
	query := &ec2.DescribeImagesInput{ImageIds: []string{want.ID}}
	if want.ID == "" {
		query = &ec2.DescribeImagesInput{Owners: want.Owners, MaxResults: aws.Int32(imagePageSize), Filters: []types.Filter{filter("name", want.Name), filter("state", "available")}}
		if want.Architecture != "" {
			query.Filters = append(query.Filters, filter("architecture", string(toArchitectureType(want.Architecture))))
		}
	}
	newest, err := lookup.Cached(&l.answers, "image", query, func() (types.Image, error) { return l.newestImage(ctx, query) })
	if err != nil {
		return types.Image{}, err
	}
	if newest.ImageId == nil {
		return types.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: errNoImage}
	}
	if isUnusable(newest.State) {
		return types.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: fmt.Errorf("the image %q is %s", aws.ToString(newest.ImageId), newest.State)}
	}
	return newest, nil
}

// newestImage reads all pages of a query and keeps only the newest image; the zero image where nothing matches.
func (l *Lookup) newestImage(ctx context.Context, query *ec2.DescribeImagesInput) (newest types.Image, err error) {
	pages := ec2.NewDescribeImagesPaginator(l.api, query)
	for range maxImagePages {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return types.Image{}, err
		}
		for _, image := range page.Images {
			if newest.ImageId == nil || byCreationDate(image, newest) > 0 {
				newest = image
			}
		}
		if !pages.HasMorePages() {
			return newest, nil
		}
	}
	return types.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: errTooMany}
}

// isUnusable reports whether no instance can be launched from an image in a state any more. EC2 still returns such an
// image by its ID.
func isUnusable(state types.ImageState) bool {
	return slices.Contains([]types.ImageState{types.ImageStateInvalid, types.ImageStateDeregistered, types.ImageStateFailed, types.ImageStateError, types.ImageStateDisabled}, state)
}

// byCreationDate compares images by their creation dates, which EC2 writes so that they sort as text.
func byCreationDate(a, b types.Image) int {
	return cmp.Or(cmp.Compare(aws.ToString(a.CreationDate), aws.ToString(b.CreationDate)), cmp.Compare(aws.ToString(a.ImageId), aws.ToString(b.ImageId)))
}

// subnets returns the IDs of the subnets that match, sorted.
func (l *Lookup) subnets(ctx context.Context, filters []types.Filter) ([]string, error) {
	return lookup.Cached(&l.answers, "subnet", filters, func() (ids []string, err error) {
		pages := ec2.NewDescribeSubnetsPaginator(l.api, &ec2.DescribeSubnetsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, subnet := range page.Subnets {
				ids = append(ids, aws.ToString(subnet.SubnetId))
			}
		}
		slices.Sort(ids)
		return ids, nil
	})
}

// securityGroups returns the IDs of the security groups that match, sorted.
func (l *Lookup) securityGroups(ctx context.Context, filters []types.Filter) ([]string, error) {
	return lookup.Cached(&l.answers, "security group", filters, func() (ids []string, err error) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(l.api, &ec2.DescribeSecurityGroupsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, group := range page.SecurityGroups {
				ids = append(ids, aws.ToString(group.GroupId))
			}
		}
		slices.Sort(ids)
		return ids, nil
	})
}

func toFilters(from []infrav1.AWSFilter) (to []types.Filter) {
	for _, f := range from {
		to = append(to, filter(f.Name, f.Values...))
	}
	return to
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}
