// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/vcenter"
)

// cloneRequest is a clone that was requested.
type cloneRequest struct {
	request driver.CreateRequest[InstanceConfig]
	created time.Time
}

// startClone starts the clone of a template. A name that is taken is either the work of an earlier call or belongs to
// another owner.
func (d *Driver) startClone(ctx context.Context, client *vim25.Client, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	uuid := instanceID(req.Identity)
	values, err := userDataValues(req)
	if err != nil {
		return driver.Instance{}, err
	}
	place, err := d.session.Resolve(ctx, req.Config.References)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := checkTemplate(place); err != nil {
		return driver.Instance{}, err
	}
	clone := cloneRequest{request: req, created: d.options.Now().UTC().Truncate(time.Second)}
	if known, ok := d.clones.Get(uuid); ok {
		clone.created = known.What.created
	}
	spec, err := toCloneSpec(clone, place, values)
	if err != nil {
		return driver.Instance{}, err
	}
	if place.Pod != nil {
		if spec.Location.Datastore, err = vcenter.Recommend(ctx, client, place, req.Identity.Name, spec); err != nil {
			return driver.Instance{}, fmt.Errorf("requesting a datastore from Storage DRS: %w", err)
		}
	}
	task, err := place.Template.Clone(ctx, place.Folder, req.Identity.Name, spec)
	if err != nil {
		if !soap.IsSoapFault(err) {
			d.unknownClones.Add() // the answer was lost, so the clone may be under way
		}
		return driver.Instance{}, d.explainDuplicateName(ctx, client, req.Identity, err)
	}
	if err := vcenter.CheckReference(task.Reference()); err != nil {
		d.unknownClones.Add()
		return driver.Instance{}, err
	}
	d.clones.Start(uuid, task.Reference(), clone)
	return pendingInstance(clone), nil
}

// explainDuplicateName returns a NotOwnedError for a clone that failed because its name is taken by a virtual machine
// of another owner.
func (d *Driver) explainDuplicateName(ctx context.Context, client *vim25.Client, id driver.Identity, err error) error {
	var duplicate *types.DuplicateName
	if _, ok := fault.As(err, &duplicate); !ok {
		return err
	}
	vm, readErr := vcenter.Read(ctx, client, duplicate.Object)
	if readErr != nil {
		return readErr
	}
	_, found, readErr := parse(vm)
	if readErr != nil {
		return readErr
	}
	if notOwned := id.Check(found); notOwned != nil {
		return notOwned
	}
	// It is ours and appeared after it was looked for: the next call finds it.
	return err
}

// isKnownClone reports whether a task is a clone that this process requested and whose answer it has.
func (d *Driver) isKnownClone(task types.ManagedObjectReference) bool {
	for _, clone := range d.clones.All() {
		if clone.Task != nil && *clone.Task == task {
			return true
		}
	}
	return false
}
