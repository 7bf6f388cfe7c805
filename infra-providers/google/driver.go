// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/internal/label"
	"drover.io/runtime/egress"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=googlemachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=googlemachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=googlemachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=googlemachinetemplates/status,verbs=patch

const (
	// callTimeout bounds one call of the API. An answer that takes longer counts as lost.
	callTimeout = 30 * time.Second
	// maxAnswer is how many bytes one answer may have: many times what instanceFields of a page of 500 instances have.
	maxAnswer = 64 << 20
	// maxPageSize is the maximum page size of the API.
	maxPageSize = 500
	// instanceFields are the fields of a list of instances that are used. The metadata, with the user data, are half a MiB of each
	// instance.
	instanceFields = "nextPageToken,unreachables,warning/code,items/*/warning,items/*/instances(id,name,zone,status,statusMessage," +
		"creationTimestamp,lastStartTimestamp,lastStopTimestamp,labels,labelFingerprint,networkInterfaces,scheduling," +
		"disks(type,autoDelete,source,deviceName))"
	// endpoint is that of Google.
	endpoint = "https://compute.googleapis.com"
)

// Options are the settings of the provider.
type Options struct {
	// Endpoint replaces Google's own, for example by a private one in a VPC. It has no path.
	Endpoint string
	// TokenEndpoint is where tokens are requested with keys of service accounts. Empty means Google's own.
	TokenEndpoint string
	// PageSize is the number of resources on a page of a list; zero means the maximum of the API.
	PageSize int64
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Compute Engine. The limits leave capacity for other clients of the project: it permits
// 25 reads, 25 lists and 25 changes a second.
func Cloud(options Options) driver.Cloud[*infrav1.GoogleMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.GoogleMachine, InstanceConfig]{
		Name:           "google",
		NewMachine:     func() *infrav1.GoogleMachine { return &infrav1.GoogleMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.GoogleMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.GoogleMachine] { return &infrav1.GoogleMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		Limits:         driver.Limits{PerSecond: 10, Burst: 50},
		Connect: func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(ctx, options, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter, driver.ConsoleReader and driver.AttachedObjectLister.
type Driver struct {
	api       *compute.Service
	project   string
	lookup    *request.Lookup
	creations *inflight.Creations
	// process distinguishes the requests of this process from those of an earlier one.
	process  string
	attempts atomic.Uint64
	stops    expiring.Map[string, string]
	pageSize int64
}

// connect reads the key and makes no call. The SDK repeats no call: retries are the same for all clouds and happen outside
// the drivers.
func connect(ctx context.Context, options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	tokens, err := newTokenSource(options, account, secret)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: callTimeout, Transport: authorized{tokens, httplimit.Wrap(driver.NewTransport(callTimeout), maxAnswer)}, CheckRedirect: egress.NoRedirects}
	url := strings.TrimRight(cmp.Or(options.Endpoint, endpoint), "/") + "/compute/v1/"
	api, err := compute.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(url))
	if err != nil {
		return nil, fmt.Errorf("configuring the client of Compute Engine: %w", err)
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	d := &Driver{
		api:       api,
		project:   account.Region,
		lookup:    request.NewLookup(api, options.Clock),
		creations: inflight.New(options.Clock),
		process:   string(uuid.NewUUID()),
		pageSize:  cmp.Or(options.PageSize, maxPageSize),
	}
	d.stops.Clock, d.stops.TTL, d.stops.Max = options.Clock, time.Hour, maxStops
	return d, nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if found == nil {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("instance of %q", id.Name)}
	}
	checked, err := id.Checked(d.toInstance(found))
	if err != nil {
		return driver.Instance{}, err
	}
	checked.Message, err = d.stopMessage(ctx, found, checked)
	return checked, err
}

// Delete implements driver.Driver. The disks that were created with the instance are deleted with it; those that a failed
// insertion left, or that were detached, are deleted by themselves.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found != nil {
		instance, err := id.Checked(d.toInstance(found))
		if err != nil {
			return err
		}
		id.UID = instance.Identity.UID
	}
	own, err := d.ownDisks(ctx, id)
	if err != nil && (found == nil || !isIncomplete(err)) {
		return err
	}
	if err := d.deleteDetached(ctx, own); err != nil {
		return err
	}
	if found == nil {
		d.creations.End(id, instanceObject)
		return nil
	}
	return d.deleteInstance(ctx, id, found, own)
}

// deleteInstance deletes an instance after it has made sure that no disk of another owner is deleted with it.
func (d *Driver) deleteInstance(ctx context.Context, id driver.Identity, found *compute.Instance, own []*compute.Disk) error {
	if isDeleting(found) {
		return nil
	}
	zone, kept := request.Last(found.Zone), false
	for _, attached := range found.Disks {
		keep, err := d.isForeign(ctx, id, zone, attached, own)
		if err != nil {
			return err
		}
		if keep {
			if _, err := d.api.Instances.SetDiskAutoDelete(d.project, zone, found.Name, false, attached.DeviceName).Context(ctx).Do(); err != nil {
				return toError(err)
			}
			kept = true
		}
	}
	if kept {
		return nil // that takes a moment; the instance is not being deleted, so Delete is called again
	}
	_, err := d.api.Instances.Delete(d.project, zone, found.Name).Context(ctx).Do()
	if err != nil && !isNotFound(err) {
		return toError(err)
	}
	return nil
}

// isDeleting reports whether an instance is being deleted or stopped. One that is only stopped is deleted afterwards.
func isDeleting(found *compute.Instance) bool { return toState(found.Status) == driver.Stopping }

// List implements driver.Driver. An instance whose insertion may still fail is left out: it would be taken for the machine's
// and count as missing when it is gone, although another zone may have capacity.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for found, err := range d.instances(ctx, ownerFilter(owner)) {
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			instance := d.toInstance(found)
			if mayFail(found) || !owner.Selects(instance.Identity.Owner) {
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

// find returns the instance of an identity, or nil if there is none. It fails while that is unknown. It is read by its name
// where the zone is known, because a list may be behind.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*compute.Instance, error) {
	if id.ProviderID != "" {
		zone, name, ok := d.parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		return d.read(ctx, zone, name)
	}
	if id.UID == "" {
		return nil, nil
	}
	if found, err := d.findListed(ctx, id); err != nil || found != nil {
		return found, err
	}
	if inserted, ok := d.creations.Get(id, instanceObject); ok {
		return d.findInserted(ctx, id, inserted)
	}
	if d.creations.InStartupWindow() {
		return nil, errCreationUnknown
	}
	return nil, nil
}

// findInserted returns the instance of an insertion whose end is not known, and fails while it may still appear. It may appear
// until the operation ends, so that is read first.
func (d *Driver) findInserted(ctx context.Context, id driver.Identity, inserted inflight.Creation) (*compute.Instance, error) {
	ended := false
	if inserted.Operation != "" {
		operation, err := d.api.ZoneOperations.Get(d.project, inserted.Zone, inserted.Operation).Context(ctx).Do()
		forgotten := isNotFound(err)
		if err != nil && !forgotten {
			return nil, toError(err)
		}
		ended = forgotten || operation.Status == operationDone
	}
	found, err := d.read(ctx, inserted.Zone, id.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case found != nil && label.Decode(found.Labels).UID == id.UID:
		return found, nil
	case ended:
		d.creations.Fail(id, instanceObject)
		return nil, nil
	case d.creations.MayAppear(inserted):
		return nil, errNotListedYet
	default:
		return nil, nil
	}
}

// findListed returns the instance that is listed for the UID of an identity, or nil. Another machine may have the same UID,
// so there may be several. An instance that is its own is returned although a zone cannot be listed.
func (d *Driver) findListed(ctx context.Context, id driver.Identity) (*compute.Instance, error) {
	var listed []*compute.Instance
	var converted []driver.Instance
	var incomplete error
	for found, err := range d.instances(ctx, uidFilter(id)) {
		switch {
		case isIncomplete(err):
			incomplete = err
			continue
		case err != nil:
			return nil, err
		}
		if instance := d.toInstance(found); instance.Identity.UID == id.UID {
			listed, converted = append(listed, found), append(converted, instance)
		}
	}
	own := id.Own(converted)
	if len(own) == 0 || incomplete != nil && id.Check(own[0].Identity) != nil {
		return nil, incomplete
	}
	first := slices.MinFunc(own, func(a, b driver.Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ProviderID, b.ProviderID))
	})
	return listed[slices.IndexFunc(converted, func(i driver.Instance) bool { return i.ProviderID == first.ProviderID })], nil
}

// read returns an instance by its name, or nil. Unlike a list, that is never behind.
func (d *Driver) read(ctx context.Context, zone, name string) (*compute.Instance, error) {
	found, err := d.api.Instances.Get(d.project, zone, name).Context(ctx).Do()
	if isNotFound(err) {
		return nil, nil
	}
	return found, toError(err)
}

// instances yields the instances of the project that match a filter, over all zones and pages, and a failure last.
func (d *Driver) instances(ctx context.Context, filter string) iter.Seq2[*compute.Instance, error] {
	return allPages(func(token string) (p page[*compute.Instance], err error) {
		answer, err := d.api.Instances.AggregatedList(d.project).Fields(instanceFields).Filter(filter).MaxResults(d.pageSize).PageToken(token).Context(ctx).Do()
		if err != nil {
			return p, err
		}
		p.unreachable, p.next = answer.Unreachables, answer.NextPageToken
		p.partial = isPartial(ptr.Deref(answer.Warning, compute.InstanceAggregatedListWarning{}).Code)
		for _, scope := range slices.Sorted(maps.Keys(answer.Items)) {
			zone := answer.Items[scope]
			p.add(scope, ptr.Deref(zone.Warning, compute.InstancesScopedListWarning{}).Code, zone.Instances)
		}
		return p, nil
	})
}
