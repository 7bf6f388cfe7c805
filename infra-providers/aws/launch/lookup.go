// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// freshness is how long an answer is used again: long enough for a burst of machines, short enough that
// nobody waits for a new image or subnet to be seen.
const freshness = time.Minute

var (
	errNoImage = errors.New("no available image of these owners matches")
	errNoGroup = errors.New("no security group matches")
)

// API is what is used of EC2.
type API interface {
	ec2.DescribeImagesAPIClient
	ec2.DescribeSubnetsAPIClient
	ec2.DescribeSecurityGroupsAPIClient
	ec2.DescribeInstanceTypesAPIClient
}

// Lookup finds things by their filters.
type Lookup struct {
	api API
	now func() time.Time

	mu   sync.Mutex
	kept map[string]answer
}

type answer struct {
	value any
	until time.Time
}

// NewLookup returns a Lookup that remembers nothing yet.
func NewLookup(api API, now func() time.Time) *Lookup {
	return &Lookup{api: api, now: now, kept: map[string]answer{}}
}

// Image returns the image of a spec: by its ID, or the newest one that matches. An ID that does not exist is EC2's
// error. It is the zero image for a spec that leaves it to a launch template.
func (l *Lookup) Image(ctx context.Context, spec infrav1.AWSMachineSpec) (types.Image, error) {
	want := spec.Image
	if want.ID == "" && want.Name == "" {
		return types.Image{}, nil
	}
	query := &ec2.DescribeImagesInput{ImageIds: []string{want.ID}}
	if want.ID == "" {
		query = &ec2.DescribeImagesInput{Owners: want.Owners, Filters: []types.Filter{filter("name", want.Name), filter("state", "available")}}
		if want.Architecture != "" {
			query.Filters = append(query.Filters, filter("architecture", string(platform(want.Architecture))))
		}
	}
	found, err := remembered(l, "image", query, func() ([]types.Image, error) {
		out, err := l.api.DescribeImages(ctx, query)
		if err != nil {
			return nil, err
		}
		return out.Images, nil
	})
	if err != nil {
		return types.Image{}, err
	}
	if len(found) == 0 {
		return types.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: errNoImage}
	}
	newest := slices.MaxFunc(found, newer)
	if unusable(newest.State) {
		return types.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: fmt.Errorf("the image %q is %s", aws.ToString(newest.ImageId), newest.State)}
	}
	return newest, nil
}

// unusable reports whether an image of a state is lost for good. EC2 still shows some of those to who asks for
// their ID.
func unusable(state types.ImageState) bool {
	return slices.Contains([]types.ImageState{types.ImageStateInvalid, types.ImageStateDeregistered, types.ImageStateFailed, types.ImageStateError, types.ImageStateDisabled}, state)
}

// newer compares images by their creation dates, which EC2 writes so that they sort as text.
func newer(a, b types.Image) int {
	return cmp.Or(cmp.Compare(aws.ToString(a.CreationDate), aws.ToString(b.CreationDate)), cmp.Compare(aws.ToString(a.ImageId), aws.ToString(b.ImageId)))
}

// subnets returns the IDs of the subnets that match, sorted.
func (l *Lookup) subnets(ctx context.Context, filters []types.Filter) ([]string, error) {
	return remembered(l, "subnet", filters, func() (ids []string, err error) {
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
	return remembered(l, "security group", filters, func() (ids []string, err error) {
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

// remembered answers a query from memory, or reads and remembers what succeeded. Two callers may read at
// the same time: no lock is held while the cloud is asked.
func remembered[T any](l *Lookup, kind string, query any, read func() (T, error)) (T, error) {
	text, err := json.Marshal(query)
	if err != nil {
		return *new(T), err
	}
	key := kind + string(text)
	l.mu.Lock()
	known, ok := l.kept[key]
	l.mu.Unlock()
	if ok && l.now().Before(known.until) {
		return known.value.(T), nil
	}
	value, err := read()
	if err != nil {
		return value, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, kept := range l.kept {
		if !l.now().Before(kept.until) {
			delete(l.kept, other)
		}
	}
	l.kept[key] = answer{value: value, until: l.now().Add(freshness)}
	return value, nil
}

func filtersOf(from []infrav1.AWSFilter) (to []types.Filter) {
	for _, f := range from {
		to = append(to, filter(f.Name, f.Values...))
	}
	return to
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}
