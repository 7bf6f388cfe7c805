// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
)

// state is what was read about one virtual machine.
type state struct {
	// vm is nil while the virtual machine does not exist.
	vm       *setup.VM
	instance driver.Instance
	// retry is a clone that failed and is due to be started again.
	retry *cloneRequest
}

// observe reads the virtual machine of an identity, or the task that clones it. It changes nothing in vCenter.
func (d *Driver) observe(ctx context.Context, client *vim25.Client, id driver.Identity) (state, error) {
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return state{}, err
	}
	if ok {
		return d.observeVM(ctx, client, vm, id)
	}
	if s, ok, err := d.observeClone(ctx, client, id); ok || err != nil {
		return s, err
	}
	vm, ok, err = d.findAfterUnknownClones(ctx, client, id)
	switch {
	case err != nil:
		return state{}, err
	case ok:
		return d.observeVM(ctx, client, vm, id)
	}
	d.drop(instanceID(id))
	return state{}, &driver.NotFoundError{What: "virtual machine " + instanceID(id)}
}

// observeVM reads the state of the virtual machine of an identity and of the last step of its set-up or removal.
func (d *Driver) observeVM(ctx context.Context, client *vim25.Client, vm vcenter.VM, id driver.Identity) (state, error) {
	full, found, err := parse(vm)
	if err != nil {
		return state{}, err
	}
	if err := id.Check(found); err != nil {
		return state{}, err
	}
	uuid := instanceID(found)
	d.clones.End(uuid)
	progress, deleting := setup.Progress{}, d.isDeleting(uuid)
	if full.Plan != nil || deleting {
		if progress, err = d.steps.Observe(ctx, client, uuid); err != nil {
			return state{}, err
		}
	}
	return state{vm: &full, instance: toInstance(full, found, deleting, progress)}, nil
}

// observeClone reads the state of the clone of an identity that this process requested; ok is false when there is none.
// It returns the cause when the clone failed and it is too early to start it again.
func (d *Driver) observeClone(ctx context.Context, client *vim25.Client, id driver.Identity) (s state, ok bool, err error) {
	uuid := instanceID(id)
	clone, ok := d.clones.Get(uuid)
	if !ok {
		return state{}, false, nil
	}
	if err := id.Check(pendingInstance(clone.What).Identity); err != nil {
		return state{}, false, err
	}
	if clone.Task == nil {
		return d.failedClone(uuid)
	}
	infos, err := vcenter.Results(ctx, client, *clone.Task)
	if err != nil {
		return state{}, false, err
	}
	info, exists := infos[*clone.Task]
	switch failure := vcenter.Failure(info); {
	case exists && vcenter.Running(info):
		found := pendingInstance(clone.What)
		if d.isDeleting(uuid) {
			found.State = driver.Stopping
		}
		return state{instance: found}, true, nil
	case failure != nil && d.isDeleting(uuid):
		d.clones.End(uuid)
		return state{}, false, nil
	case failure != nil:
		failure = toError(d.explainDuplicateName(ctx, client, id, failure), clone.What.request.Config)
		d.clones.Fail(uuid, failure)
		return state{}, false, fmt.Errorf("cloning: %w", failure)
	}
	// It succeeded, so the virtual machine exists, or was deleted since.
	d.clones.End(uuid)
	vm, ok, err := d.find(ctx, client, id)
	if err != nil || !ok {
		return state{}, false, err
	}
	s, err = d.observeVM(ctx, client, vm, id)
	return s, true, err
}

// failedClone is the state after a clone failed. Once it has a providerID no caller creates the machine again, so that
// Provision starts the clone again after a pause.
func (d *Driver) failedClone(uuid string) (s state, ok bool, err error) {
	clone, ok := d.clones.Get(uuid)
	switch {
	case !ok || d.isDeleting(uuid):
		return state{}, false, nil
	case d.clones.Paused(uuid):
		return state{}, false, fmt.Errorf("cloning: %w", clone.Err)
	}
	found := pendingInstance(clone.What)
	found.StepDue, found.Message = true, "the template is to be cloned again"
	return state{instance: found, retry: &clone.What}, true, nil
}

// observeTasks reads the state of all tasks that this process started, and returns the clones that are under way.
func (d *Driver) observeTasks(ctx context.Context) (map[string]cloneRequest, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.steps.ObserveAll(ctx, client); err != nil {
		return nil, err
	}
	known, refs := d.clones.All(), []types.ManagedObjectReference{}
	for _, clone := range known {
		if clone.Task != nil {
			refs = append(refs, *clone.Task)
		}
	}
	infos, err := vcenter.Results(ctx, client, refs...)
	if err != nil {
		return nil, err
	}
	running := map[string]cloneRequest{}
	for uuid, clone := range known {
		if clone.Task != nil && vcenter.Running(infos[*clone.Task]) {
			running[uuid] = clone.What
		}
	}
	return running, nil
}

// listed converts a virtual machine of a list, unless it is not the owner's.
func (d *Driver) listed(vm vcenter.VM, owner driver.Owner) (found driver.Instance, ours bool) {
	full, id, err := parse(vm)
	if err != nil || id.UID == "" || owner.UID != "" && id.Owner.UID != owner.UID {
		// A record that cannot be parsed was changed by others. One of them must not hide all other machines; a read of
		// that one returns the error.
		return driver.Instance{}, false
	}
	uuid := instanceID(id)
	deleting := d.isDeleting(uuid)
	if full.Plan == nil && !deleting {
		d.drop(uuid)
		return toInstance(full, id, false, setup.Progress{}), true
	}
	return toInstance(full, id, deleting, d.steps.Progress(uuid)), true
}
