// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/tasks"
	"drover.io/infra-providers/vsphere/vcenter"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates/status,verbs=patch

// Cloud describes vSphere. The sessions are the caller's to close at the end.
func Cloud(sessions *vcenter.Pool) driver.Cloud[*infrav1.VSphereMachine, Config] {
	return driver.Cloud[*infrav1.VSphereMachine, Config]{
		Name:           "vsphere",
		NewMachine:     func() *infrav1.VSphereMachine { return &infrav1.VSphereMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.VSphereMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.VSphereMachine] { return &infrav1.VSphereMachineTemplate{} },
		Config:         NewConfig,
		Account:        accountOf,
		Place: func(config Config) (string, string) {
			return instanceType(config), cmp.Or(config.Zone, config.Wish.ComputeCluster)
		},
		Limits: driver.Limits{PerSecond: 20, Burst: 40},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[Config], error) {
			found, err := login(account, credentials, os.Getenv)
			if err != nil {
				return nil, err
			}
			return New(sessions.Open(found), Options{PageSize: vcenter.PageSize, Now: time.Now}), nil
		},
	}
}

// Driver implements driver.Driver, driver.Sizer, driver.ImageFinder, driver.Tagger and driver.Restarter.
type Driver struct {
	session *vcenter.Session
	options Options
	steps   *setup.Steps
	// clones are the virtual machines that are not to be seen yet, by UUID.
	clones *tasks.Tracker[cloning]
	// doubt is about clones that are not among these.
	doubt vcenter.Doubt

	mu sync.Mutex
	// leaving has the UUIDs that were asked to be deleted, and whose removal goes on at each look.
	leaving map[string]bool
	// working has the machines that were asked for or read while half made, by UUID: lists take their next steps too.
	working map[string]driver.Identity
}

// AccountID implements driver.AccountIdentifier: the vCenter, by the name that it gave itself when it was installed.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return "", toError(err, Config{})
	}
	id := client.ServiceContent.About.InstanceUuid
	if id == "" {
		return "", errors.New("the server does not say which vCenter it is: it may be a host without one")
	}
	return vcenter.ID(id), nil
}

// cloning is a clone that was asked for.
type cloning struct {
	request driver.Request[Config]
	created time.Time
}

// Options are the habits of a Driver.
type Options struct {
	// PageSize is how many virtual machines a page of a list may have.
	PageSize int32
	Now      func() time.Time
}

// New returns a driver over a session.
func New(session *vcenter.Session, options Options) *Driver {
	return &Driver{
		session: session,
		options: options,
		steps:   &setup.Steps{Session: session, PageSize: options.PageSize, Tasks: tasks.Tracker[struct{}]{Now: options.Now}},
		clones:  &tasks.Tracker[cloning]{Now: options.Now},
		leaving: map[string]bool{},
		working: map[string]driver.Identity{},
	}
}

// Create implements driver.Driver. It starts the clone and returns; what follows is done a step at a time
// whenever somebody looks.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	found, err := d.create(ctx, req)
	return found, toError(err, req.Config)
}

func (d *Driver) create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, ok, err := d.find(ctx, client, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		return d.advance(ctx, client, vm, req.Identity)
	}
	d.work(instanceID(req.Identity), req.Identity)
	if under, err := d.settle(ctx, client, req.Identity); under != nil || err != nil {
		return deref(under), err
	}
	return d.clone(ctx, client, req)
}

// Get implements driver.Driver. It takes the next step of a virtual machine that is half made or half
// removed.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.get(ctx, id)
	return found, toError(err, Config{})
}

func (d *Driver) get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		return d.advance(ctx, client, vm, id)
	}
	if under, err := d.settle(ctx, client, id); under != nil || err != nil {
		return deref(under), err
	}
	if again, ok := d.clones.Get(instanceID(id)); ok && !d.left(instanceID(id)) {
		// Create was promised a virtual machine and nobody will ask for it again.
		return d.clone(ctx, client, again.What.request)
	}
	vm, ok, err = d.appeared(ctx, client, id)
	switch {
	case err != nil:
		return driver.Instance{}, err
	case ok:
		return d.advance(ctx, client, vm, id)
	}
	d.forget(instanceID(id))
	return driver.Instance{}, &driver.NotFoundError{What: "virtual machine " + instanceID(id)}
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return toError(d.remove(ctx, id), Config{})
}

func (d *Driver) remove(ctx context.Context, id driver.Identity) error {
	client, err := d.session.Client(ctx)
	if err != nil {
		return err
	}
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return err
	}
	if under, known := d.clones.Get(instanceID(id)); known && !ok {
		if err := id.Check(pending(under.What).Identity); err != nil {
			return err
		}
		d.leave(instanceID(id))
		return cancel(ctx, client, under.Task)
	}
	if !ok {
		if vm, ok, err = d.appeared(ctx, client, id); err != nil {
			return err
		}
	}
	if !ok {
		d.forget(instanceID(id))
		return nil
	}
	full, found, err := read(vm)
	if err != nil {
		return err
	}
	if err := id.Check(found); err != nil {
		return err
	}
	d.leave(instanceID(id))
	_, err = d.steps.Next(ctx, client, full, true)
	return err
}

// List implements driver.Driver. It also takes the next step of what is half made, because the generic
// machinery answers from lists and asks for single machines only when a list does not show them.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		client, err := d.session.Client(ctx)
		if err != nil {
			yield(driver.Instance{}, toError(err, Config{}))
			return
		}
		seen := map[string]bool{}
		for vm, err := range d.session.List(ctx, d.options.PageSize) {
			var found driver.Instance
			ours := false
			if err == nil {
				found, ours, err = d.listed(ctx, client, vm, owner)
			}
			if err != nil {
				yield(driver.Instance{}, toError(err, Config{}))
				return
			}
			if seen[found.ID] = true; ours && !yield(found, nil) {
				return
			}
		}
		for id, under := range d.clones.All() {
			if seen[id] || under.Task == nil || owner.UID != "" && under.What.request.Identity.Owner.UID != owner.UID {
				continue
			}
			if !yield(pending(under.What), nil) {
				return
			}
		}
	}
}

// listed converts a virtual machine of a list, unless it is not the owner's.
func (d *Driver) listed(ctx context.Context, client *vim25.Client, vm vcenter.VM, owner driver.Owner) (driver.Instance, bool, error) {
	full, id, err := read(vm)
	if err != nil || id.UID == "" || owner.UID != "" && id.Owner.UID != owner.UID {
		// A record that cannot be read is not ours: somebody changed it, and a read of that one will say so.
		return driver.Instance{}, false, nil //nolint:nilerr // one spoilt record must not blind the list
	}
	key := instanceID(id)
	if full.Plan == nil && !d.left(key) {
		d.forget(key)
		return toInstance(full, id, false, ""), true, nil
	}
	if !d.left(key) && !d.works(id) {
		// Somebody else's plan is carried out by whoever asked for it: what a virtual machine says of itself is the
		// word of all who may change its settings.
		found := toInstance(full, id, false, "")
		found.Unread = true
		return found, true, nil
	}
	whole, err := vcenter.Read(ctx, client, vm.Self)
	if gone(err) {
		return driver.Instance{}, false, nil
	}
	if err != nil {
		return driver.Instance{}, false, err
	}
	found, err := d.advance(ctx, client, whole, id)
	return found, err == nil, err
}

// find returns the virtual machine of an identity. When none has its UUID, one that has the BIOS UUID of a
// given providerID is somebody else's, and counts as there.
func (d *Driver) find(ctx context.Context, client *vim25.Client, id driver.Identity) (vcenter.VM, bool, error) {
	found, err := vcenter.Find(ctx, client, instanceID(id))
	if err == nil && len(found) == 0 && id.ProviderID != "" {
		found, err = vcenter.FindBIOS(ctx, client, instanceID(id))
	}
	if err != nil || len(found) == 0 {
		return vcenter.VM{}, false, err
	}
	for _, vm := range found { // others may have the same UID, because whoever makes a machine chooses it
		if _, at, err := read(vm); err == nil && id.Check(at) == nil {
			return vm, true, nil
		}
	}
	return found[0], true, nil
}

// clone asks for the clone. A name that is taken is either the work of an earlier call or somebody else's.
func (d *Driver) clone(ctx context.Context, client *vim25.Client, req driver.Request[Config]) (driver.Instance, error) {
	if d.clones.Paused(instanceID(req.Identity)) {
		known, _ := d.clones.Get(instanceID(req.Identity))
		return driver.Instance{}, fmt.Errorf("cloning: %w", known.Err)
	}
	values, err := guest(req)
	if err != nil {
		return driver.Instance{}, err
	}
	place, err := d.session.Resolve(ctx, req.Config.Wish)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := cloneable(place); err != nil {
		return driver.Instance{}, err
	}
	what := cloning{request: req, created: d.options.Now().UTC().Truncate(time.Second)}
	if known, ok := d.clones.Get(instanceID(req.Identity)); ok {
		what.created = known.What.created
	}
	spec, err := specify(what, place, values)
	if err != nil {
		return driver.Instance{}, err
	}
	if place.Pod != nil {
		if spec.Location.Datastore, err = vcenter.Recommend(ctx, client, place, req.Identity.Name, spec); err != nil {
			return driver.Instance{}, fmt.Errorf("asking Storage DRS for a datastore: %w", err)
		}
	}
	task, err := place.Template.Clone(ctx, place.Folder, req.Identity.Name, spec)
	if err != nil {
		if !soap.IsSoapFault(err) {
			d.doubt.Raise() // whether it was asked for, vCenter does not say
		}
		return driver.Instance{}, d.taken(ctx, client, req.Identity, err)
	}
	d.clones.Start(instanceID(req.Identity), task.Reference(), what)
	return pending(what), nil
}

// taken explains a clone that failed because of its name: it is somebody else's, unless the name is ours.
func (d *Driver) taken(ctx context.Context, client *vim25.Client, id driver.Identity, err error) error {
	var duplicate *types.DuplicateName
	if _, ok := fault.As(err, &duplicate); !ok {
		return err
	}
	vm, readErr := vcenter.Read(ctx, client, duplicate.Object)
	if readErr != nil {
		return readErr
	}
	_, found, readErr := read(vm)
	if readErr != nil {
		return readErr
	}
	if owned := id.Check(found); owned != nil {
		return owned
	}
	// Ours, and it appeared while we asked: the next call finds it.
	return err
}

// settle looks how the clone of an identity stands that this process asked for. It returns the instance
// while that is under way, and the reason when it failed and it is too early to try again.
func (d *Driver) settle(ctx context.Context, client *vim25.Client, id driver.Identity) (*driver.Instance, error) {
	key := instanceID(id)
	under, ok := d.clones.Get(key)
	if !ok {
		return nil, nil
	}
	if err := id.Check(pending(under.What).Identity); err != nil {
		return nil, err
	}
	if under.Task == nil {
		return nil, nil
	}
	infos, err := vcenter.Results(ctx, client, *under.Task)
	if err != nil {
		return nil, err
	}
	info, remembered := infos[*under.Task]
	switch failure := vcenter.Failure(info); {
	case remembered && vcenter.Running(info):
		found := pending(under.What)
		if d.left(key) {
			found.State = driver.Stopping
		}
		return &found, nil
	case failure != nil && d.left(key):
		d.clones.End(key)
		return nil, nil
	case failure != nil:
		failure = toError(d.taken(ctx, client, id, failure), under.What.request.Config)
		d.clones.Fail(key, failure)
		return nil, fmt.Errorf("cloning: %w", failure)
	}
	// It succeeded, so it has just appeared, or is gone again.
	d.clones.End(key)
	vm, ok, err := d.find(ctx, client, id)
	if err != nil || !ok {
		return nil, err
	}
	found, err := d.advance(ctx, client, vm, id)
	return &found, err
}

// appeared looks again for a virtual machine that was not to be seen, once nothing can make it appear any more. It
// fails while something can.
func (d *Driver) appeared(ctx context.Context, client *vim25.Client, id driver.Identity) (vcenter.VM, bool, error) {
	sure, err := d.doubt.Settle(ctx, client, d.asked)
	if sure || err != nil {
		return vcenter.VM{}, false, err
	}
	return d.find(ctx, client, id)
}

// asked reports whether a task is a clone that this process asked for and whose answer it has.
func (d *Driver) asked(task types.ManagedObjectReference) bool {
	for _, under := range d.clones.All() {
		if under.Task != nil && *under.Task == task {
			return true
		}
	}
	return false
}

// advance takes the next step of a virtual machine, if one is due, and returns how it stands.
func (d *Driver) advance(ctx context.Context, client *vim25.Client, vm vcenter.VM, id driver.Identity) (driver.Instance, error) {
	full, found, err := read(vm)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := id.Check(found); err != nil {
		return driver.Instance{}, err
	}
	key := instanceID(found)
	d.clones.End(key)
	words := ""
	if full.Plan != nil || d.left(key) {
		d.work(key, id)
		if words, err = d.steps.Next(ctx, client, full, d.left(key)); err != nil {
			return driver.Instance{}, err
		}
	}
	return toInstance(full, found, d.left(key), words), nil
}

// cancel asks vCenter to give up a task. One that cannot be cancelled ends by itself.
func cancel(ctx context.Context, client *vim25.Client, task *types.ManagedObjectReference) error {
	if task == nil {
		return nil
	}
	infos, err := vcenter.Results(ctx, client, *task)
	if info := infos[*task]; err != nil || !info.Cancelable || info.Cancelled || !vcenter.Running(info) {
		return err
	}
	err = object.NewTask(client, *task).Cancel(ctx)
	if is[*types.NotSupported](err) || is[*types.InvalidState](err) || gone(err) {
		return nil
	}
	return err
}

func (d *Driver) leave(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leaving[key] {
		// What the set-up was doing, or failed at, does not hold up the removal.
		d.steps.Forget(key)
	}
	d.leaving[key] = true
}

// work notes whose set-up lists go on with.
func (d *Driver) work(key string, id driver.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.working[key] = id
}

// works reports whether the set-up of a virtual machine is this process's to go on with.
func (d *Driver) works(found driver.Identity) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.working[instanceID(found)]
	return ok && id.Check(found) == nil
}

func (d *Driver) left(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaving[key]
}

// forget drops what is remembered of a virtual machine that is done with.
func (d *Driver) forget(key string) {
	d.mu.Lock()
	delete(d.leaving, key)
	delete(d.working, key)
	d.mu.Unlock()
	d.clones.End(key)
	d.steps.Forget(key)
}

func gone(err error) bool { return is[*types.ManagedObjectNotFound](err) }

func deref(found *driver.Instance) driver.Instance {
	if found == nil {
		return driver.Instance{}
	}
	return *found
}
