// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/resourcemanager/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/yandex/request"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=yandexmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=yandexmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=yandexmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=yandexmachinetemplates/status,verbs=patch

// maxPageSize is the maximum page size of the API.
const maxPageSize = 1000

// Options are the settings of the provider.
type Options struct {
	// Endpoint is one URL at which all services are, such as a gateway; http means without TLS. Empty means that each service has
	// its own address in the domain.
	Endpoint string
	// Domain is that of the services of another installation, such as api.yandexcloud.kz. Empty means api.cloud.yandex.net.
	Domain string
	// PageSize is the number of resources on a page of a list; zero means the maximum of the API.
	PageSize int64
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Yandex Compute Cloud. The limits are cautious, because Yandex does not publish those of
// requests.
func Cloud(options Options) driver.Cloud[*infrav1.YandexMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.YandexMachine, InstanceConfig]{
		Name:           "yandex",
		NewMachine:     func() *infrav1.YandexMachine { return &infrav1.YandexMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.YandexMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.YandexMachine] { return &infrav1.YandexMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		Limits:         driver.Limits{PerSecond: 10, Burst: 50},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter, driver.ConsoleReader and driver.AttachedObjectLister.
type Driver struct {
	instances  compute.InstanceServiceClient
	disks      compute.DiskServiceClient
	operations operation.OperationServiceClient
	folders    resourcemanager.FolderServiceClient

	folder    string
	domain    string
	lookup    *request.Lookup
	creations *inflight.Creations
	stops     expiring.Map[string, string]
	// uids are those that a restore lost, of instances that are being deleted.
	uids     expiring.Map[driver.Identity, types.UID]
	pageSize int64
}

// connect reads the key and makes no call. No call is repeated: retries are the same for all clouds and happen outside the
// drivers.
func connect(options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	tokens, err := newTokens(options, account, secret)
	if err != nil {
		return nil, err
	}
	dialed, err := dial(options, tokens)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	d := &Driver{
		instances:  compute.NewInstanceServiceClient(dialed[computeService]),
		disks:      compute.NewDiskServiceClient(dialed[computeService]),
		operations: operation.NewOperationServiceClient(dialed[operationService]),
		folders:    resourcemanager.NewFolderServiceClient(dialed[folderService]),
		folder:     account.Region,
		domain:     cmp.Or(options.Domain, defaultDomain),
		lookup:     request.NewLookup(compute.NewImageServiceClient(dialed[computeService]), options.Clock),
		creations:  inflight.New(options.Clock),
		pageSize:   cmp.Or(options.PageSize, maxPageSize),
	}
	d.stops.Clock, d.stops.TTL, d.stops.Max = options.Clock, stopLifetime, maxStops
	d.uids.Clock, d.uids.TTL, d.uids.Max = options.Clock, uidLifetime, maxStops
	runtime.AddCleanup(d, connections.close, dialed)
	return d, nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if found == nil {
		return d.remaining(ctx, id)
	}
	checked, err := id.Checked(toInstance(found))
	if err != nil {
		return driver.Instance{}, err
	}
	checked.Message, err = d.stopMessage(ctx, found, checked)
	return checked, err
}

// List implements driver.Driver. An instance whose creation may still fail is left out: it would be taken for the machine's
// and count as missing when it is gone, although another zone may have capacity.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for found, err := range d.listInstances(ctx, "") {
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			instance := toInstance(found)
			if mayFail(found) || instance.Identity.UID == "" || !owner.Selects(instance.Identity.Owner) {
				continue
			}
			if instance.Message, err = d.stopMessage(ctx, found, instance); err != nil {
				yield(driver.Instance{}, err)
				return
			}
			if !yield(instance, nil) {
				return
			}
		}
	}
}

// find returns the instance of an identity, or nil if there is none. It fails while that is unknown. It is read by its ID where
// that is known, because a list may be behind.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*compute.Instance, error) {
	if id.ProviderID != "" {
		instanceID, ok := parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		return d.read(ctx, instanceID)
	}
	if id.UID == "" {
		return nil, nil
	}
	if found, err := d.findListed(ctx, id); err != nil || found != nil {
		return found, err
	}
	if creation, ok := d.creations.Get(id, instanceObject); ok {
		return d.findCreated(ctx, id, creation)
	}
	if d.creations.InStartupWindow() {
		return nil, errCreationUnknown
	}
	return nil, nil
}

// findCreated returns the instance of a creation whose end is not known, and fails while it may still appear. It may appear
// until the operation ends, so that is read first.
func (d *Driver) findCreated(ctx context.Context, id driver.Identity, creation inflight.Creation) (*compute.Instance, error) {
	if creation.Operation == "" {
		if d.creations.MayAppear(creation) {
			return nil, errNotListedYet
		}
		return nil, nil
	}
	begun, err := d.readOperation(ctx, creation.Operation)
	if err != nil {
		return nil, err
	}
	found, err := d.read(ctx, creation.ID)
	if err != nil || found != nil {
		return found, err
	}
	if begun != nil && !begun.Done {
		return nil, errNotListedYet
	}
	d.creations.Fail(id, instanceObject)
	return nil, nil
}

// findListed returns the instance that is listed for the UID of an identity, or nil. Another machine may have the same UID, so
// there may be several. What is listed may be gone, so it is read.
func (d *Driver) findListed(ctx context.Context, id driver.Identity) (*compute.Instance, error) {
	var listed []driver.Instance
	for found, err := range d.listInstances(ctx, "") {
		if err != nil {
			return nil, err
		}
		if instance := toInstance(found); instance.Identity.UID == id.UID {
			listed = append(listed, instance)
		}
	}
	listed = id.Own(listed)
	slices.SortFunc(listed, func(a, b driver.Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, instance := range listed {
		if found, err := d.read(ctx, instance.ID); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// read returns an instance by its ID, or nil. Unlike a list, that is never behind. IDs are unique in all folders: the
// credentials may lead to one to which the instance was moved, and there it is not absent.
func (d *Driver) read(ctx context.Context, instanceID string) (*compute.Instance, error) {
	if instanceID == "" {
		return nil, nil
	}
	found, err := d.instances.Get(ctx, &compute.GetInstanceRequest{InstanceId: instanceID})
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, toError(err)
	case found.FolderId != d.folder:
		return nil, fmt.Errorf("the instance %q is in the folder %q and not in %q: move it back", found.Id, found.FolderId, d.folder)
	}
	return found, nil
}

// readOperation returns an operation, or nil for one that is not kept any more.
func (d *Driver) readOperation(ctx context.Context, id string) (*operation.Operation, error) {
	found, err := d.operations.Get(ctx, &operation.GetOperationRequest{OperationId: id})
	if isNotFound(err) {
		return nil, nil
	}
	return found, toError(err)
}

// listInstances yields the instances of the folder that match a filter, over all pages, and a failure last. A list cannot be
// filtered by labels.
func (d *Driver) listInstances(ctx context.Context, filter string) iter.Seq2[*compute.Instance, error] {
	return allPages(func(token string) ([]*compute.Instance, string, error) {
		answer, err := d.instances.List(ctx, &compute.ListInstancesRequest{FolderId: d.folder, PageSize: d.pageSize, PageToken: token, Filter: filter})
		return answer.GetInstances(), answer.GetNextPageToken(), err
	})
}

// allPages yields what is on all pages of a list, and a failure last.
func allPages[T any](read func(token string) (page []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			page, next, err := read(token)
			if err != nil {
				yield(*new(T), toError(err))
				return
			}
			for _, found := range page {
				if !yield(found, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// byName returns the filter of lists that selects a name.
func byName(name string) string { return fmt.Sprintf("name=%q", name) }

// maxStops bounds the causes of stops that are cached, and stopLifetime how long.
const (
	maxStops     = 10000
	stopLifetime = 5 * time.Minute
)

// uidLifetime is how long the UID of an instance is remembered that is being deleted.
const uidLifetime = time.Hour
