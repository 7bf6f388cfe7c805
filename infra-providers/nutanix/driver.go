// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/nutanix/prism"
	"drover.io/infra-providers/nutanix/request"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=nutanixmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=nutanixmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=nutanixmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=nutanixmachinetemplates/status,verbs=patch

// maxPageSize is the maximum page size of the API.
const maxPageSize = 100

// Options are the settings of the provider.
type Options struct {
	// PageSize is the number of entities on a page of a list; zero means the maximum of the API.
	PageSize int
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Nutanix. The limits are cautious, because Nutanix does not publish those of requests.
func Cloud(options Options) driver.Cloud[*infrav1.NutanixMachine, InstanceConfig] {
	long := httplimit.NewCloudSeats()
	return driver.Cloud[*infrav1.NutanixMachine, InstanceConfig]{
		Name:           "nutanix",
		NewMachine:     func() *infrav1.NutanixMachine { return &infrav1.NutanixMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.NutanixMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.NutanixMachine] { return &infrav1.NutanixMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		Limits:         driver.Limits{PerSecond: 10, Burst: 30},
		Connect: func(_ context.Context, account driver.Account, secret driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, secret, long)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger and
// driver.Restarter.
type Driver struct {
	prism     *prism.Client
	lookup    *request.Lookup
	creations *inflight.Creations
	clock     clock.PassiveClock
	// shortages are virtual machines that could not be started and are being deleted, by machine.
	shortages expiring.Map[driver.Identity, shortage]
	// changes are the tasks of deletions and of detachments of volume groups, by what is changed.
	changes expiring.Map[string, string]
	// failures are the last ones of such tasks, by what is changed.
	failures expiring.Map[string, failure]
	// asked has what is changed whose task was read, or begun, less than retryPause ago.
	asked expiring.Limiter[string]
	// owners are the IDs of the categories of Clusters, by value.
	owners expiring.Map[string, string]
	// repeated has the machines whose refused request is repeated with the category read again, which other machines may have
	// cached again by then: once in categoryLifetime.
	repeated expiring.Limiter[driver.Identity]
	// account is the Prism Central that answered first.
	account atomic.Pointer[string]
}

// How long and how much is remembered: of a deletion, and of a category.
const (
	changeLifetime   = time.Hour
	categoryLifetime = 10 * time.Minute
	maxRemembered    = 10_000
)

// startWindow is how long the creation of a virtual machine may take until it is started.
const startWindow = time.Hour

// creationTime is how long a virtual machine that was requested may be in no list. The first one of an image in a cluster copies
// the image there, and only then exists.
const creationTime = 10 * time.Minute

// connect reads the login and makes no call. No call is repeated: retries are the same for all clouds and happen outside the
// drivers.
func connect(options Options, account driver.Account, secret driver.Credentials, long *httplimit.Seats) (*Driver, error) {
	login, err := newLogin(account, secret)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	client := prism.New(login.Login, login.server(long).Transport(), cmp.Or(options.PageSize, maxPageSize), options.Clock)
	d := &Driver{prism: client, lookup: request.NewLookup(client, options.Clock), creations: inflight.New(options.Clock), clock: options.Clock}
	d.shortages.Clock, d.shortages.TTL, d.shortages.Max = options.Clock, changeLifetime, maxRemembered
	d.changes.Clock, d.changes.TTL, d.changes.Max = options.Clock, changeLifetime, maxRemembered
	d.failures.Clock, d.failures.TTL, d.failures.Max = options.Clock, changeLifetime, maxRemembered
	d.asked.Clock, d.asked.Period, d.asked.Max = options.Clock, retryPause, maxRemembered
	d.repeated.Clock, d.repeated.Period, d.repeated.Max = options.Clock, categoryLifetime, maxRemembered
	d.owners.Clock, d.owners.TTL, d.owners.Max = options.Clock, categoryLifetime, maxRemembered
	return d, nil
}

// virtualMachine is one that was read by its ID.
type virtualMachine struct {
	instance driver.Instance
	power    config.PowerState
	// groups are the IDs of the volume groups that are attached to it.
	groups []string
	// etag is what a change must name.
	etag string
	// read is what was read; nil for all but the first of several, because it may be large.
	read *config.Vm
}

// toVirtualMachine converts a virtual machine that was read or listed.
func toVirtualMachine(vm *config.Vm, clusters []request.Cluster) virtualMachine {
	return virtualMachine{
		instance: toInstance(vm, clusters), power: ptr.Deref(vm.PowerState, config.POWERSTATE_UNKNOWN), groups: volumeGroups(vm), read: vm,
	}
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("virtual machine of %q", id.Name)}
	}
	checked, err := id.Checked(found[0].instance)
	if err != nil {
		return driver.Instance{}, err
	}
	deleting, err := d.isChanging(ctx, checked.ID)
	if deleting {
		checked.State, checked.PollAfter = driver.Stopping, pollInterval
	}
	checked.Message = cmp.Or(d.removalFailure(found[0]), checked.Message)
	return checked, err
}

// List implements driver.Driver. It reads all virtual machines that the credentials may read: which properties a filter of the
// API accepts is different from version to version. A stopped one that is new is left out: perhaps it cannot be started and will
// be gone, and it would count as missing then although another cluster may have capacity.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		clusters, err := d.lookup.Clusters(ctx)
		if err != nil {
			yield(driver.Instance{}, toError(err))
			return
		}
		changes := listedChanges{driver: d}
		for vm, err := range d.prism.VMs(ctx) {
			if err != nil {
				yield(driver.Instance{}, toError(err))
				return
			}
			listed := toVirtualMachine(vm, clusters)
			instance := listed.instance
			if instance.Identity.UID != "" && !request.IsUUID(instance.ID) {
				yield(driver.Instance{}, errNoID)
				return
			}
			if changes.has(ctx, instance.ID) {
				instance.State, instance.PollAfter = driver.Stopping, pollInterval
			}
			instance.Message = cmp.Or(d.removalFailure(listed), instance.Message)
			if instance.State == driver.Stopped && d.clock.Since(instance.Created) < startWindow {
				continue
			}
			if instance.Identity.UID != "" && owner.Selects(instance.Identity.Owner) && !yield(instance, nil) {
				return
			}
		}
	}
}

// find returns the virtual machines of an identity, the oldest first, and fails while it is unknown whether there is one. That
// there is none is concluded only from what the Prism Central that answered first has.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]virtualMachine, error) {
	found, err := d.search(ctx, id)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return nil, d.verifyAccount(ctx)
}

// search is find for the Prism Central that answers now. A virtual machine is read by its ID where that is known, because a list
// may be behind.
func (d *Driver) search(ctx context.Context, id driver.Identity) ([]virtualMachine, error) {
	if id.ProviderID != "" {
		vmID, ok := parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		return d.read(ctx, vmID)
	}
	if id.UID == "" {
		return nil, nil
	}
	if found, err := d.findListed(ctx, id); err != nil || len(found) > 0 {
		return found, err
	}
	if creation, ok := d.creations.Get(id, vmObject); ok {
		return d.findCreated(ctx, id, creation)
	}
	return nil, d.checkStarted()
}

// findCreated returns the virtual machine of a creation whose end is not known, and fails while it may still appear.
func (d *Driver) findCreated(ctx context.Context, id driver.Identity, creation inflight.Creation) ([]virtualMachine, error) {
	if creation.Operation == "" {
		if d.mayAppear(creation) {
			return nil, errNotListedYet
		}
		return nil, nil
	}
	task, err := d.readTask(ctx, creation.Operation)
	if err != nil {
		return nil, err
	}
	recent := d.clock.Since(creation.Sent) < inflight.Window
	switch {
	case task == nil && recent:
		return nil, errNotListedYet
	case task != nil && !hasEnded(task):
		d.creations.Keep(id, vmObject, creation)
		return nil, &driver.UnfinishedError{Err: fmt.Errorf("the task %q of Prism Central, which creates the virtual machine, has not ended", creation.Operation)}
	}
	vmID := createdVM(task)
	found, err := d.read(ctx, vmID)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if recent && hasSucceeded(task) && !d.changes.Has(vmID) {
		return nil, errNotListedYet
	}
	d.creations.Fail(id, vmObject)
	return nil, d.checkStarted() // it may be an earlier process's first attempt, and no list has what that made later
}

// checkStarted fails while an earlier process may have requested what no list has yet.
func (d *Driver) checkStarted() error {
	if d.clock.Since(d.creations.Started()) < creationTime {
		return errCreationUnknown
	}
	return nil
}

// findListed returns the virtual machines that are listed for an identity. What is listed may be gone, so it is read.
func (d *Driver) findListed(ctx context.Context, id driver.Identity) ([]virtualMachine, error) {
	instances, err := d.listed(ctx, id)
	if err != nil {
		return nil, err
	}
	instances = id.Own(instances)
	slices.SortFunc(instances, func(a, b driver.Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	var found []virtualMachine
	for _, instance := range instances {
		read, err := d.read(ctx, instance.ID)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && len(read) > 0 {
			read[0].read = nil
		}
		found = append(found, read...)
	}
	return found, nil
}

// listed returns what is listed for the UID of an identity. What is the machine's own has its name, which is one page of a list as
// a rule, and one of another name is another machine's; all are read only for an identity without a name, which owns none.
func (d *Driver) listed(ctx context.Context, id driver.Identity) ([]driver.Instance, error) {
	if id.Name != "" {
		return ofUID(d.prism.VMsByName(ctx, id.Name), id.UID)
	}
	return ofUID(d.prism.VMs(ctx), id.UID)
}

// maxOfUID is how many virtual machines may have one UID. Each is read, and a server that a Secret names may list any number.
const maxOfUID = 10

// ofUID returns the virtual machines of a list that have a UID, with no more than what tells them apart.
func ofUID(list iter.Seq2[*config.Vm, error], uid types.UID) (found []driver.Instance, err error) {
	for vm, err := range list {
		if err != nil {
			return nil, toError(err)
		}
		known := request.Identity(ptr.Deref(vm.Name, ""), ptr.Deref(vm.Description, ""))
		vmID := ptr.Deref(vm.ExtId, "")
		switch {
		case known.UID != uid:
			continue
		case !request.IsUUID(vmID):
			return nil, errNoID
		case len(found) >= maxOfUID:
			return nil, fmt.Errorf("more than %d virtual machines have the UID of this machine in their description: remove it from those that are not this machine's", maxOfUID)
		}
		found = append(found, driver.Instance{ID: vmID, Created: ptr.Deref(vm.CreateTime, time.Time{}), Identity: known})
	}
	return found, nil
}

// read returns a virtual machine by its ID, or nothing.
func (d *Driver) read(ctx context.Context, vmID string) ([]virtualMachine, error) {
	if vmID == "" {
		return nil, nil
	}
	vm, etag, err := d.prism.VM(ctx, vmID)
	switch {
	case prism.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, toError(err)
	case ptr.Deref(vm.ExtId, "") != vmID:
		return nil, fmt.Errorf("reading the virtual machine %q: the answer is about another one", vmID)
	}
	clusters, err := d.lookup.Clusters(ctx)
	if err != nil {
		return nil, toError(err)
	}
	found := toVirtualMachine(vm, clusters)
	found.etag = etag
	return []virtualMachine{found}, nil
}

// readTask returns a task, or nil for one that is not kept any more, or not shown yet.
func (d *Driver) readTask(ctx context.Context, id string) (*tasks.Task, error) {
	found, err := d.prism.Task(ctx, id)
	if prism.IsNotFound(err) {
		return nil, nil
	}
	return found, toError(err)
}
