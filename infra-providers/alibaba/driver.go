// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=alibabamachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=alibabamachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=alibabamachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=alibabamachinetemplates/status,verbs=patch

// maxPageSize is the maximum number of instances or disks on a page.
const maxPageSize = 100

// Options are the settings of the provider.
type Options struct {
	// Endpoint is the URL of ECS, without a path; empty means that of the region.
	Endpoint string
	// STSEndpoint is the URL of the Security Token Service, which identifies the account. Empty means Endpoint, or that of the
	// region.
	STSEndpoint string
	// MetadataEndpoint is the URL of the metadata service that has the credentials of the RAM role of the provider's instance.
	// Empty means http://100.100.100.200.
	MetadataEndpoint string
	// PageSize is the number of instances on a page of a list; zero means ECS's maximum.
	PageSize int32
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of ECS. The limits leave capacity for other clients of the account.
func Cloud(options Options) driver.Cloud[*infrav1.AlibabaMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.AlibabaMachine, InstanceConfig]{
		Name:                "alibaba",
		NewMachine:          func() *infrav1.AlibabaMachine { return &infrav1.AlibabaMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.AlibabaMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.AlibabaMachine] { return &infrav1.AlibabaMachineTemplate{} },
		Config:              NewInstanceConfig,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Alternatives:        alternatives,
		Offering:            toOffering,
		Limits:              driver.Limits{PerSecond: 5, Burst: 20},
		Connect: func(_ context.Context, account driver.Account, secret driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, secret)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.ConsoleReader.
type Driver struct {
	client    *client
	lookup    *request.Lookup
	creations *createcache.Cache
	// released has the provider IDs of instances that ECS has agreed to release.
	released expiring.Map[string, bool]
	clock    clock.PassiveClock
	region   string
	pageSize int32
}

// connect reads settings and makes no call. Each call of the driver is tried once: retries are the same for all clouds and
// happen outside the drivers.
func connect(options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.PageSize == 0 {
		options.PageSize = maxPageSize
	}
	client, err := newClient(options, account, secret)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		client:    client,
		lookup:    request.NewLookup(client, account.Region, options.Clock),
		creations: createcache.New(options.Clock),
		clock:     options.Clock,
		region:    account.Region,
		pageSize:  options.PageSize,
	}
	d.released.Clock, d.released.TTL = options.Clock, createcache.Window
	return d, nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("ECS instance of %q", id.Name)}
	}
	return id.Checked(found[0])
}

// List implements driver.Driver. It reads all instances of the region: ECS returns 1,000 at most of those that have a tag.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for found, err := range d.describe(ctx, &ecs.DescribeInstancesRequest{}) {
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			instance := d.toInstance(found)
			if instance.Identity.UID != "" && owner.Selects(instance.Identity.Owner) && !yield(instance, nil) {
				return
			}
		}
	}
}

// find returns what findListed does, and an instance that was created a moment ago and that ECS does not list yet. It fails
// while it is unknown whether there is one.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]driver.Instance, error) {
	found, err := d.findListed(ctx, id)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if created, ok := d.creations.Instance(id); ok {
		return []driver.Instance{created}, nil
	}
	if id.ProviderID == "" && d.creations.Unanswered(id) {
		return nil, errNotListedYet
	}
	if d.creations.InStartupWindow() && !d.released.Has(id.ProviderID) {
		return nil, errCreationUnknown
	}
	return nil, d.client.checkDescribeInstances(ctx)
}

// findListed returns the instances that ECS lists for an identity, the oldest first. There are several only after ECS has
// forgotten a client token.
func (d *Driver) findListed(ctx context.Context, id driver.Identity) (found []driver.Instance, err error) {
	if id.ProviderID == "" && id.UID == "" {
		return nil, nil
	}
	query := &ecs.DescribeInstancesRequest{Tag: []*ecs.DescribeInstancesRequestTag{
		(&ecs.DescribeInstancesRequestTag{}).SetKey(driver.TagMachineUID).SetValue(string(id.UID)),
	}}
	if id.ProviderID != "" {
		name, ok := d.parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		query = (&ecs.DescribeInstancesRequest{}).SetInstanceIds(ids(name))
	}
	for listed, err := range d.describe(ctx, query) {
		if err != nil {
			return nil, err
		}
		found = append(found, d.withIdentity(d.toInstance(listed)))
	}
	slices.SortFunc(found, byCreation)
	return id.Own(found), nil
}

// withIdentity returns an instance that this process created a moment ago with the identity that it requested, where ECS shows
// none of its tags yet.
func (d *Driver) withIdentity(listed driver.Instance) driver.Instance {
	if listed.Identity.UID != "" {
		return listed
	}
	if created, ok := d.creations.Instance(driver.Identity{ProviderID: listed.ProviderID}); ok {
		listed.Identity = created.Identity
	}
	return listed
}

// describe yields the instances that match a query, page by page, and a failure last.
func (d *Driver) describe(ctx context.Context, query *ecs.DescribeInstancesRequest) iter.Seq2[*ecs.DescribeInstancesResponseBodyInstancesInstance, error] {
	query.SetRegionId(d.region)
	query.SetMaxResults(d.pageSize)
	return pages(func(token *string) ([]*ecs.DescribeInstancesResponseBodyInstancesInstance, *string, error) {
		query.NextToken = token
		answer, err := d.client.describeInstances(ctx, query)
		if err != nil {
			return nil, nil, err
		}
		return answer.Instances.Instance, answer.NextToken, nil
	})
}

// pages yields what all pages of a list have, and a failure last. A page whose token is that of the page before would be read
// for ever.
func pages[T any](read func(token *string) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var token *string
		for {
			page, next, err := read(token)
			if err == nil && next != nil && token != nil && *next == *token {
				err = errSamePage
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil || *next == "" {
				return
			}
			token = next
		}
	}
}

// callTimeout bounds one call of the API. An answer that takes longer counts as lost.
const callTimeout = 30 * time.Second
