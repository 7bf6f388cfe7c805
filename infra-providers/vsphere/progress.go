// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/guestinfo"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
)

var errUnderWay = errors.New("a clone that was asked for before this process started is under way and may be this machine's")

// find returns the virtual machine of an identity. When none has its UUID, one that has the BIOS UUID of a
// given providerID is somebody else's, and counts as there.
func (d *Driver) find(ctx context.Context, client *vim25.Client, id driver.Identity) (vcenter.VM, bool, error) {
	found, err := vcenter.Find(ctx, client, uuidOf(id))
	if err == nil && len(found) == 0 && id.ProviderID != "" {
		found, err = vcenter.FindBIOS(ctx, client, uuidOf(id))
	}
	if err != nil || len(found) == 0 {
		return vcenter.VM{}, false, err
	}
	return found[0], true, nil
}

// clone asks for the clone. A name that is taken is either the work of an earlier call or somebody else's.
func (d *Driver) clone(ctx context.Context, client *vim25.Client, req driver.Request[Config]) (driver.Instance, error) {
	if d.clones.Paused(uuidOf(req.Identity)) {
		known, _ := d.clones.Get(uuidOf(req.Identity))
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
	what := cloning{request: req, created: d.options.Now().UTC().Truncate(time.Second)}
	if known, ok := d.clones.Get(uuidOf(req.Identity)); ok {
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
		return driver.Instance{}, d.taken(ctx, client, req.Identity, err)
	}
	d.clones.Begin(uuidOf(req.Identity), task.Reference(), what)
	return pending(what), nil
}

// guest returns the advanced parameters that carry user data.
func guest(req driver.Request[Config]) (map[string]string, error) {
	if field, err := guestinfo.Check(req.Format, req.Config.Shape.Networks); err != nil {
		return nil, &driver.InvalidConfigurationError{Field: field, Err: err}
	}
	values, err := guestinfo.UserData(req.Format, req.UserData)
	if err != nil {
		return nil, &driver.InvalidConfigurationError{Field: "bootstrap data", Err: err}
	}
	return values, nil
}

// specify writes the clone's specification, with its record and plan in it.
func specify(what cloning, place vcenter.Place, values map[string]string) (types.VirtualMachineCloneSpec, error) {
	id, config := what.request.Identity, what.request.Config
	record := setup.Record{Tags: id.Tags(), Created: what.created, Zone: config.Zone, Group: config.Wish.VMGroup}
	if config.AntiAffinityGroup != "" {
		record.Rule = fmt.Sprintf("drover-%s-%s-%s", id.Owner.Namespace, id.Owner.Name, config.AntiAffinityGroup)
	}
	stands, err := setup.Values(record, setup.Plan{
		UUID:           uuidOf(id),
		Name:           id.Name,
		ProviderID:     scheme + uuidOf(id),
		CPUs:           config.Shape.CPUs,
		CoresPerSocket: config.Shape.CoresPerSocket,
		MemoryMiB:      config.Shape.MemoryMiB,
		Hardware:       config.Hardware,
		CloudInit:      what.request.Format != guestinfo.Ignition,
		Networks:       config.Shape.Networks,
		Tags:           place.Tags,
		Attributes:     place.Attributes,
	})
	if err != nil {
		return types.VirtualMachineCloneSpec{}, err
	}
	shape := config.Shape
	shape.UUID = uuidOf(id)
	shape.ExtraConfig = maps.Clone(shape.ExtraConfig)
	maps.Copy(shape.ExtraConfig, values)
	maps.Copy(shape.ExtraConfig, stands)
	return clone.Spec(shape, place)
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
	key := uuidOf(id)
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
		failure = kind(d.taken(ctx, client, id, failure), under.What.request.Config)
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

// unknown fails while a clone is under way that an earlier process asked for: until it ends nobody can say
// that a virtual machine does not exist.
func (d *Driver) unknown(ctx context.Context, client *vim25.Client) error {
	under, err := vcenter.Cloning(ctx, client, d.session.Began())
	if err == nil && under {
		err = errUnderWay
	}
	return err
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
	key := uuidOf(found)
	d.clones.End(key)
	words := ""
	if full.Plan != nil || d.left(key) {
		if words, err = d.step(ctx, client, full, key); err != nil {
			return driver.Instance{}, err
		}
	}
	return instance(full, found, d.left(key), words), nil
}

// step starts the next task of a virtual machine unless one is under way or failed a moment ago. A failure
// does not fail the call, because the virtual machine is there: it becomes the words about its state.
func (d *Driver) step(ctx context.Context, client *vim25.Client, vm setup.VM, key string) (words string, err error) {
	if last, ok := d.tasks.Get(key); ok && last.Task != nil {
		infos, err := vcenter.Results(ctx, client, *last.Task)
		if err != nil {
			return "", err
		}
		info := infos[*last.Task]
		if vcenter.Running(info) {
			return say(last.Err), nil
		}
		d.ended(key, vcenter.Failure(info))
	}
	if !d.tasks.Paused(key) {
		next := d.steps.Up
		if d.left(key) {
			next = d.steps.Down
		}
		task, err := next(ctx, client, vm)
		if task != nil {
			d.tasks.Begin(key, *task, struct{}{})
		} else if err != nil {
			d.ended(key, kind(err, Config{}))
		}
	}
	last, _ := d.tasks.Get(key)
	return say(last.Err), ctx.Err()
}

// ended notes how a task ended. That somebody was quicker, or that the virtual machine is busy or gone, is
// no failure: the next look sees what is left to do.
func (d *Driver) ended(key string, err error) {
	if err == nil || is[*types.TaskInProgress](err) || is[*types.InvalidPowerState](err) || gone(err) {
		d.tasks.End(key)
		return
	}
	d.tasks.Fail(key, err)
}

// cancel asks vCenter to give up a task. A task that cannot be cancelled ends by itself.
func cancel(ctx context.Context, client *vim25.Client, task *types.ManagedObjectReference) error {
	if task == nil {
		return nil
	}
	err := object.NewTask(client, *task).Cancel(ctx)
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
		d.tasks.End(key)
	}
	d.leaving[key] = true
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
	d.mu.Unlock()
	d.clones.End(key)
	d.tasks.End(key)
}

func gone(err error) bool { return is[*types.ManagedObjectNotFound](err) }

func say(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func deref(found *driver.Instance) driver.Instance {
	if found == nil {
		return driver.Instance{}
	}
	return *found
}
