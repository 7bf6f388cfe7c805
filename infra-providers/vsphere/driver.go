// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"cmp"
	"context"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/tasks"
	"drover.io/infra-providers/vsphere/vcenter"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates/status,verbs=patch

// Cloud describes vSphere. The caller closes the sessions at the end.
func Cloud(sessions *vcenter.Pool) driver.Cloud[*infrav1.VSphereMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.VSphereMachine, InstanceConfig]{
		Name:                "vsphere",
		NewMachine:          func() *infrav1.VSphereMachine { return &infrav1.VSphereMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.VSphereMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.VSphereMachine] { return &infrav1.VSphereMachineTemplate{} },
		Config:              NewInstanceConfig,
		RemovesInSteps:      true,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Offering:            toOffering,
		Limits:              driver.Limits{PerSecond: 20, Burst: 40},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			found, err := login(account, credentials, os.Getenv)
			if err != nil {
				return nil, err
			}
			return New(sessions.Open(found), Options{PageSize: vcenter.PageSize, Now: time.Now}), nil
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Provisioner,
// driver.Tagger and driver.Restarter.
type Driver struct {
	session *vcenter.Session
	options Options
	steps   *setup.Steps
	// clones are those that this process requested and whose virtual machines do not exist yet, by UUID.
	clones *tasks.Tracker[cloneRequest]
	// unknownClones is about clones under way that are not among these.
	unknownClones vcenter.UnknownClones

	mu sync.Mutex
	// deleting has the UUIDs of the virtual machines whose removal has begun.
	deleting map[string]bool
}

// Options are the settings of a Driver.
type Options struct {
	// PageSize is how many virtual machines a page of a list may have.
	PageSize int32
	Now      func() time.Time
}

// New returns a driver over a session.
func New(session *vcenter.Session, options Options) *Driver {
	return &Driver{
		session:  session,
		options:  options,
		steps:    &setup.Steps{Session: session, PageSize: options.PageSize, Tasks: tasks.Tracker[struct{}]{Now: options.Now}},
		clones:   &tasks.Tracker[cloneRequest]{Now: options.Now},
		deleting: map[string]bool{},
	}
}

// Create implements driver.Driver. It starts the clone and returns. What is left to do once the clone exists is written
// into it, and Provision does it.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	created, err := d.create(ctx, req)
	return created, toError(err, req.Config)
}

func (d *Driver) create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, ok, err := d.find(ctx, client, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		s, err := d.observeVM(ctx, client, vm, req.Identity)
		return s.instance, err
	}
	s, ok, err := d.observeClone(ctx, client, req.Identity)
	if err != nil || ok && s.retry == nil {
		return s.instance, err
	}
	return d.startClone(ctx, client, req)
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.get(ctx, id)
	return found, toError(err, InstanceConfig{})
}

func (d *Driver) get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	s, err := d.observe(ctx, client, id)
	return s.instance, err
}

// Delete implements driver.Driver. Each call takes the next step of the removal.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return toError(d.remove(ctx, id), InstanceConfig{})
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
	if clone, known := d.clones.Get(instanceID(id)); known && !ok {
		if err := id.Check(pendingInstance(clone.What).Identity); err != nil {
			return err
		}
		d.markDeleting(instanceID(id))
		return cancelTask(ctx, client, clone.Task)
	}
	if !ok {
		if vm, ok, err = d.findAfterUnknownClones(ctx, client, id); err != nil {
			return err
		}
	}
	if !ok {
		d.drop(instanceID(id))
		return nil
	}
	full, found, err := parse(vm)
	if err != nil {
		return err
	}
	if err := id.Check(found); err != nil {
		return err
	}
	d.markDeleting(instanceID(id))
	_, err = d.steps.Next(ctx, client, full, setup.Down)
	return err
}

// cancelTask cancels a task of vCenter. One that cannot be cancelled ends by itself.
func cancelTask(ctx context.Context, client *vim25.Client, task *types.ManagedObjectReference) error {
	if task == nil {
		return nil
	}
	infos, err := vcenter.Results(ctx, client, *task)
	if info := infos[*task]; err != nil || !info.Cancelable || info.Cancelled || !vcenter.Running(info) {
		return err
	}
	err = object.NewTask(client, *task).Cancel(ctx)
	if hasFault[*types.NotSupported](err) || hasFault[*types.InvalidState](err) || isNotFound(err) {
		return nil
	}
	return err
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		clones, err := d.observeTasks(ctx)
		if err != nil {
			yield(driver.Instance{}, toError(err, InstanceConfig{}))
			return
		}
		listed := map[string]bool{}
		for vm, err := range d.session.List(ctx, d.options.PageSize) {
			if err != nil {
				yield(driver.Instance{}, toError(err, InstanceConfig{}))
				return
			}
			found, ours := d.listed(vm, owner)
			if listed[found.ID] = true; ours && !yield(found, nil) {
				return
			}
		}
		for id, clone := range clones {
			if listed[id] || owner.UID != "" && clone.request.Identity.Owner.UID != owner.UID {
				continue
			}
			if !yield(pendingInstance(clone), nil) {
				return
			}
		}
	}
}

// find returns the virtual machine of an identity. When none has its UUID, one that has the BIOS UUID of a
// given providerID belongs to another owner, and counts as found. One that had a
// providerID counts as missing only where the user may see it.
func (d *Driver) find(ctx context.Context, client *vim25.Client, id driver.Identity) (vcenter.VM, bool, error) {
	found, err := d.session.Find(ctx, client, instanceID(id))
	if err == nil && len(found) == 0 && id.ProviderID != "" {
		found, err = vcenter.FindBIOS(ctx, client, instanceID(id))
	}
	if err == nil && len(found) == 0 && id.ProviderID != "" {
		err = d.session.CheckVisible(ctx, client, instanceID(id))
	}
	if err != nil || len(found) == 0 {
		return vcenter.VM{}, false, err
	}
	for _, vm := range found { // others may have the same UID, because whoever creates a machine object may choose it
		if _, at, err := parse(vm); err == nil && id.Check(at) == nil {
			return vm, true, nil
		}
	}
	return found[0], true, nil
}

// findAfterUnknownClones looks once more for a virtual machine that did not exist, when no clone is under way any more
// that could make it appear. It fails while there is one.
func (d *Driver) findAfterUnknownClones(ctx context.Context, client *vim25.Client, id driver.Identity) (vcenter.VM, bool, error) {
	none, err := d.unknownClones.Ended(ctx, client, d.isKnownClone)
	if none || err != nil {
		return vcenter.VM{}, false, err
	}
	return d.find(ctx, client, id)
}

// markDeleting records that the removal of a virtual machine has begun.
func (d *Driver) markDeleting(uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.deleting[uuid] {
		// The task of a step of the set-up, and the pause after a failure of one, do not hold up the removal.
		d.steps.Drop(uuid)
	}
	d.deleting[uuid] = true
}

func (d *Driver) isDeleting(uuid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleting[uuid]
}

// drop removes what this process has recorded of a virtual machine that is finished or does not exist.
func (d *Driver) drop(uuid string) {
	d.mu.Lock()
	delete(d.deleting, uuid)
	d.mu.Unlock()
	d.clones.End(uuid)
	d.steps.Drop(uuid)
}

// toOffering is the shape of a virtual machine as its instance type, and its zone or compute cluster.
func toOffering(config InstanceConfig) (shape, zone string) {
	return instanceType(config), cmp.Or(config.Zone, config.References.ComputeCluster)
}
