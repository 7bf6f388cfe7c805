// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmware/go-vcloud-director/v3/types/v56"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vcdmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vcdmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vcdmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vcdmachinetemplates/status,verbs=patch

const (
	// maxPageSize is the maximum number of records on a page.
	maxPageSize = 128
	// maxNamesakes is how many virtual machines of one name are read.
	maxNamesakes = 100
)

// Options are the settings of the provider.
type Options struct {
	// PageSize is the number of records on a page of a list; zero means the maximum.
	PageSize int
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
	// Getenv reads the environment; nil means that of the process.
	Getenv func(string) string

	// long are seats for long answers of servers that Secrets name.
	long *httplimit.Seats
}

// Cloud returns the description of VMware Cloud Director. The limits leave capacity for other clients.
func Cloud(options Options) driver.Cloud[*infrav1.VCDMachine, InstanceConfig] {
	options.long = httplimit.NewCloudSeats()
	return driver.Cloud[*infrav1.VCDMachine, InstanceConfig]{
		Name:           "vcd",
		NewMachine:     func() *infrav1.VCDMachine { return &infrav1.VCDMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.VCDMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.VCDMachine] { return &infrav1.VCDMachineTemplate{} },
		Config:         NewInstanceConfig,
		RemovesInSteps: true,
		Account:        toAccount,
		Offering:       toOffering,
		Limits:         driver.Limits{PerSecond: 5, Burst: 20},
		Connect: func(_ context.Context, account driver.Account, secret driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, secret)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.AttachedObjectLister, for one vApp.
type Driver struct {
	client            *client
	vdcName, vAppName string
	pageSize          int
	clock             clock.PassiveClock
	// creations has the recompositions whose answer was lost.
	creations *createcache.Cache
	// steps has the task that was started last for a creation, by machine.
	steps expiring.Map[driver.Identity, step]
	// ended has the step of a creation that was successful last, by machine.
	ended expiring.Map[driver.Identity, step]
	// deleting has the task that was started last for the deletion of a virtual machine, by its ID. The step is zero after that
	// has failed, and has no task after one that was due again.
	deleting expiring.Map[string, step]
	answers  expiring.Map[string, any]

	mu sync.Mutex
	// place has the IDs of what the names of the account mean, as far as they are known.
	place place
}

// place has the UUIDs of an organization, a VDC and a vApp.
type place struct{ organization, vdc, vApp string }

// stepLifetime is how long a task is remembered; no step of a creation takes longer.
const stepLifetime = 6 * time.Hour

// connect reads settings and makes no call.
func connect(options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.PageSize == 0 {
		options.PageSize = maxPageSize
	}
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	login, err := readLogin(account, secret, options.Getenv)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		client:    newClient(login, options.long, options.Clock.Now),
		pageSize:  options.PageSize,
		clock:     options.Clock,
		creations: createcache.New(options.Clock),
	}
	d.vdcName, d.vAppName, _ = strings.Cut(account.Region, "/")
	d.steps.Clock, d.steps.TTL = options.Clock, stepLifetime
	d.ended.Clock, d.ended.TTL = options.Clock, stepLifetime
	d.deleting.Clock, d.deleting.TTL = options.Clock, time.Hour
	d.answers.Clock, d.answers.TTL = options.Clock, lookupLifetime
	return d, nil
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
	checked, err := id.Checked(d.toInstance(found[0]))
	if err == nil && isIncomplete(found[0].vm.Status, found[0].marked) {
		return driver.Instance{}, &driver.UnfinishedError{Err: errIncompleteVM}
	}
	return checked, err
}

// isIncomplete reports whether a virtual machine is being created or its creation failed. It is no instance: another one may
// replace it.
func isIncomplete(status int, marked bool) bool { return !marked && status <= statusUnresolved }

// List implements driver.Driver. It has what the vApp has.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for found, err := range d.listed(ctx, owner) {
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			if !found.incomplete && !yield(found.Instance, nil) {
				return
			}
		}
	}
}

// AttachedObjects implements driver.AttachedObjectLister: virtual machines that are being created or whose creation failed. All else
// of a virtual machine does not exist without it.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for found, err := range d.listed(ctx, owner) {
			if err != nil {
				yield(driver.AttachedObject{}, err)
				return
			}
			object := driver.AttachedObject{Kind: "incomplete virtual machine", ID: found.ID, Identity: found.Identity, Created: found.Created}
			if found.incomplete && !yield(object, nil) {
				return
			}
		}
	}
}

// listedInstance is an instance in a list, or what is not one yet.
type listedInstance struct {
	driver.Instance
	incomplete bool
}

// listed yields the virtual machines of an owner in the vApp, and a failure last. The records of the list have the metadata, and
// the vApp has the tasks and the addresses.
func (d *Driver) listed(ctx context.Context, owner driver.Owner) iter.Seq2[listedInstance, error] {
	return func(yield func(listedInstance, error) bool) {
		vApp, err := d.readVApp(ctx)
		if err != nil {
			yield(listedInstance{}, err)
			return
		}
		inVApp := map[string]*types.Vm{}
		for _, child := range children(vApp) {
			inVApp[idOf(child.HREF)] = child
		}
		for found, err := range d.records(ctx, namePrefix+"*") {
			if err != nil {
				yield(listedInstance{}, err)
				return
			}
			instance := d.recordInstance(found, inVApp[idOf(found.HREF)])
			listed := idOf(found.ContainerID) == idOf(vApp.HREF) && instance.Identity.UID != "" && owner.Selects(instance.Identity.Owner)
			if listed && !yield(instance, nil) {
				return
			}
		}
	}
}

// find returns the virtual machines of an identity, its own ones first. There are several only if others chose the same UID, or
// if names are not unique. None means that there is none: the vApp was read and does not have it.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]machine, error) {
	if id.ProviderID != "" {
		vm, ok := parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		found, err := d.read(ctx, vm)
		if found == nil {
			return nil, err
		}
		return []machine{*found}, nil
	}
	found, vApp, err := d.findNamed(ctx, id)
	if err != nil || len(found) > 0 || vApp == nil {
		return found, err
	}
	return nil, d.checkAbsent(id, vApp)
}

// findNamed returns the virtual machines whose names derive from the UID of an identity. If no list has one, it reads the vApp
// and returns that too, because lists may be behind.
func (d *Driver) findNamed(ctx context.Context, id driver.Identity) ([]machine, *types.VApp, error) {
	name := vmName(id.UID)
	if name == "" {
		return nil, nil, nil
	}
	place, err := d.findPlace(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ids []string
	for record, err := range d.records(ctx, name) {
		if err != nil {
			return nil, nil, err
		}
		if record.Name == name && idOf(record.VdcHREF) == place.vdc {
			ids = append(ids, idOf(record.HREF))
		}
		if len(ids) > maxNamesakes {
			return nil, nil, errTooMany
		}
	}
	found, err := d.readAll(ctx, ids)
	if err != nil || len(found) > 0 {
		return own(id, found), nil, err
	}
	vApp, err := d.readVApp(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids = nil
	for _, child := range children(vApp) {
		if child.Name == name {
			ids = append(ids, idOf(child.HREF))
		}
	}
	found, err = d.readAll(ctx, ids)
	return own(id, found), vApp, err
}

// checkAbsent fails while a virtual machine that a vApp does not have may still appear in it.
func (d *Driver) checkAbsent(id driver.Identity, vApp *types.VApp) error {
	switch {
	case d.isComposed(vApp, id):
		return &driver.UnfinishedError{Err: errComposing}
	case d.creations.Unanswered(id):
		return errUnanswered
	case d.creations.InStartupWindow():
		return errCreationUnknown
	}
	return nil
}

// isComposed reports whether a task on a vApp is in progress that may add the virtual machine of an identity: any that this
// process has not started for another one.
func (d *Driver) isComposed(vApp *types.VApp, id driver.Identity) bool {
	others := map[string]bool{}
	for of, step := range d.steps.All() {
		others[step.task] = of != stepKey(id)
	}
	return slices.ContainsFunc(active(vApp.Tasks), func(task *types.Task) bool { return !others[idOf(task.HREF)] })
}

// own sorts the machine's own ones to the front, then the oldest.
func own(id driver.Identity, found []machine) []machine {
	rank := func(m machine) int {
		if id.Check(m.identity) == nil {
			return 0
		}
		return 1
	}
	slices.SortFunc(found, func(a, b machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
	return found
}

// readAll reads those of the virtual machines that exist.
func (d *Driver) readAll(ctx context.Context, ids []string) (all []machine, err error) {
	for _, id := range ids {
		found, err := d.read(ctx, id)
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	return all, nil
}

// read returns a virtual machine with its metadata, or nil if there is none.
func (d *Driver) read(ctx context.Context, id string) (*machine, error) {
	vm, metadata := &types.Vm{}, &types.Metadata{}
	err := d.client.get(ctx, vmPath(id), nil, vm)
	if isAbsent(err) {
		return nil, d.proveAbsence(ctx, id, err)
	}
	if err != nil {
		return nil, err
	}
	if err := d.client.get(ctx, vmPath(id)+"/metadata", nil, metadata); isAbsent(err) {
		return nil, d.confirm(ctx, id, err)
	} else if err != nil {
		return nil, err
	}
	return newMachine(id, vm, metadata), nil
}

// confirm returns nil if a virtual machine that was read does not exist any more, and else why something of it was refused. That
// the vApp does not have it proves nothing as long as it can be read: it may have been moved.
func (d *Driver) confirm(ctx context.Context, id string, refused error) error {
	err := d.client.get(ctx, vmPath(id), nil, &types.Vm{})
	switch {
	case isAbsent(err):
		return d.proveAbsence(ctx, id, err)
	case err != nil:
		return err
	}
	return refused
}

// proveAbsence returns nil if the vApp does not have a virtual machine that could not be read. Director answers alike for what does
// not exist and for what may not be read, but whoever may read a vApp sees all that is in it.
func (d *Driver) proveAbsence(ctx context.Context, id string, failed error) error {
	vApp, err := d.readVApp(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(children(vApp), func(child *types.Vm) bool { return idOf(child.HREF) == id }) {
		return failed
	}
	return nil
}

// record is a virtual machine in a list. The type of the SDK lacks the description, and has ten times as many fields as are read.
type record struct {
	HREF        string          `xml:"href,attr"`
	Name        string          `xml:"name,attr"`
	ContainerID string          `xml:"container,attr"`
	VdcHREF     string          `xml:"vdc,attr"`
	Status      string          `xml:"status,attr"`
	Deployed    bool            `xml:"isDeployed,attr"`
	DateCreated string          `xml:"dateCreated,attr"`
	Description string          `xml:"description,attr"`
	MetaData    *types.Metadata `xml:"Metadata"`
}

// records yields the virtual machines whose names match, over all pages, and a failure last. Metadata is only in a list
// whose fields are named, and only those are named that the SDK has as fields which may be: isBusy is none.
func (d *Driver) records(ctx context.Context, name string) iter.Seq2[*record, error] {
	fields := []string{"name", "container", "vdc", "status", "isDeployed", "dateCreated", "description"}
	for _, key := range metadataKeys {
		fields = append(fields, "metadata:"+key)
	}
	return func(yield func(*record, error) bool) {
		stopped := false
		err := pages(func(page int) (int, int, error) {
			var answer struct {
				Total    *int      `xml:"total,attr"`
				VMRecord []*record `xml:"VMRecord"`
			}
			err := d.client.get(ctx, "/query", url.Values{
				"type": {"vm"}, "format": {"records"}, "page": {strconv.Itoa(page)}, "pageSize": {strconv.Itoa(d.pageSize)},
				"filter": {"isVAppTemplate==false;name==" + name}, "fields": {strings.Join(fields, ",")}, "sortAsc": {"name"},
			}, &answer)
			if err == nil && answer.Total == nil {
				err = errIncomplete
			}
			if err != nil {
				return 0, 0, err
			}
			for _, found := range answer.VMRecord {
				if stopped = !yield(found, nil); stopped {
					return 0, 0, nil
				}
			}
			return len(answer.VMRecord), *answer.Total, nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}
