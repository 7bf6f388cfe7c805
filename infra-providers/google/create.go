// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
	"drover.io/infra-providers/internal/inflight"
)

// instanceObject names the instance among the creations of a machine, of which it is the only one.
const instanceObject = "instance"

// operationDone is the status of an operation that has ended, with or without an error.
const operationDone = "DONE"

// Create implements driver.Driver. The answer to an insertion is only that it has begun: whether the zone has capacity is
// known at the end of its operation, so Create is unfinished until then.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	inserted, known := d.creations.Get(req.Identity, instanceObject)
	if known && inserted.Operation != "" {
		return d.continueInsertion(ctx, req, inserted)
	}
	found, err := d.findListed(ctx, req.Identity)
	if err != nil && !isIncomplete(err, zones(req.Config)...) {
		return driver.Instance{}, err
	}
	if found != nil {
		return d.accepted(req.Identity, found)
	}
	if known && inserted.Zone != req.Config.Zone {
		if d.creations.MayAppear(inserted) {
			return driver.Instance{}, errNotListedYet
		}
		known = false
	}
	image, err := d.lookup.Image(ctx, req.Config.Spec)
	if err != nil {
		return driver.Instance{}, toCreateError(err, req.Config, "spec.image")
	}
	instance, err := request.Instance(request.Input{
		Spec: req.Config.Spec, Zone: req.Config.Zone, Identity: req.Identity, UserData: req.UserData, Format: req.Format,
	}, image)
	if err != nil {
		return driver.Instance{}, err
	}
	if !known {
		inserted = inflight.Creation{Zone: req.Config.Zone, Key: d.requestID(req.Identity), Disks: request.DiskNames(instance)}
	}
	return d.insert(ctx, req, instance, inserted)
}

// requestID returns a request ID that derives from the machine and from this attempt. Compute Engine answers a repeated
// request ID with the first operation, also if that has failed, so another attempt needs another one.
func (d *Driver) requestID(id driver.Identity) string {
	text, err := json.Marshal([]any{id.UID, id.Name, id.Owner.Namespace, id.Owner.Name, d.process, d.attempts.Add(1)})
	if err != nil {
		panic(err) // strings and numbers can always be marshalled
	}
	sum := sha256.Sum256(text)
	return uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String()
}

// insert requests the instance. It is recorded before, so that its absence is not concluded while the answer is missing.
func (d *Driver) insert(ctx context.Context, req driver.CreateRequest[InstanceConfig], instance *compute.Instance, inserted inflight.Creation) (driver.Instance, error) {
	unanswered := inserted.Sent
	d.creations.Set(req.Identity, instanceObject, inserted)
	operation, err := d.api.Instances.Insert(d.project, req.Config.Zone, instance).RequestId(inserted.Key).Context(ctx).Do()
	if isAlreadyExists(err) {
		if unanswered.IsZero() {
			d.creations.End(req.Identity, instanceObject) // the request was not carried out
		}
		return d.findNamesake(ctx, req)
	}
	if err != nil {
		err = toCreateError(err, req.Config, "spec")
		switch short := driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err); {
		case short:
			return d.refused(ctx, req, err)
		case unanswered.IsZero() && (driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err) || driver.IsRateLimited(err)):
			d.creations.End(req.Identity, instanceObject) // the request was not carried out
		}
		return driver.Instance{}, err
	}
	logr.FromContextOrDiscard(ctx).Info("requested instance", "operation", operation.Name)
	inserted.Operation = operation.Name
	d.creations.Set(req.Identity, instanceObject, inserted)
	return d.conclude(ctx, req, operation)
}

// continueInsertion reads the operation of an insertion.
func (d *Driver) continueInsertion(ctx context.Context, req driver.CreateRequest[InstanceConfig], inserted inflight.Creation) (driver.Instance, error) {
	operation, err := d.api.ZoneOperations.Get(d.project, inserted.Zone, inserted.Operation).Context(ctx).Do()
	if isNotFound(err) { // it is not kept for ever
		d.creations.End(req.Identity, instanceObject)
		return driver.Instance{}, errNotListedYet
	}
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	req.Config.Zone = inserted.Zone
	return d.conclude(ctx, req, operation)
}

// conclude returns the instance of an operation that has ended, or why there is none.
func (d *Driver) conclude(ctx context.Context, req driver.CreateRequest[InstanceConfig], operation *compute.Operation) (driver.Instance, error) {
	switch {
	case operation.Status != operationDone:
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	case operation.Error != nil || operation.HttpErrorStatusCode != 0:
		return d.refused(ctx, req, toOperationError(operation, req.Config))
	}
	d.creations.End(req.Identity, instanceObject)
	found, err := d.read(ctx, req.Config.Zone, req.Identity.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if found == nil {
		return driver.Instance{}, fmt.Errorf("the instance %q was deleted as soon as it was created", req.Identity.Name)
	}
	return req.Identity.Checked(d.toInstance(found))
}

// refused returns why an insertion failed, after a direct read has proven that there is no instance: another process may
// have requested the same.
func (d *Driver) refused(ctx context.Context, req driver.CreateRequest[InstanceConfig], cause error) (driver.Instance, error) {
	found, err := d.read(ctx, req.Config.Zone, req.Identity.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil && req.Identity.Check(d.toInstance(found).Identity) == nil {
		d.creations.End(req.Identity, instanceObject)
		return d.accepted(req.Identity, found)
	}
	d.creations.Fail(req.Identity, instanceObject)
	return driver.Instance{}, cause
}

// accepted returns an instance that was found, unless its insertion may still fail.
func (d *Driver) accepted(id driver.Identity, found *compute.Instance) (driver.Instance, error) {
	instance, err := id.Checked(d.toInstance(found))
	if err != nil {
		return driver.Instance{}, err
	}
	if mayFail(found) {
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	d.creations.End(id, instanceObject)
	return instance, nil
}

// findNamesake returns the instance whose name is in use if it is this machine's: requested by a call whose answer was
// lost, by another process, or by a concurrent caller. While another machine's instance has the name, the creation fails
// until the name is free. A disk of this machine that a failed insertion left is deleted.
func (d *Driver) findNamesake(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	found, err := d.read(ctx, req.Config.Zone, req.Identity.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil {
		instance := d.toInstance(found)
		if req.Identity.Check(instance.Identity) == nil {
			return d.accepted(req.Identity, found)
		}
		d.creations.End(req.Identity, instanceObject)
		return driver.Instance{}, fmt.Errorf("the zone has another instance with the name of this machine (%s): delete one of them", instance.ProviderID)
	}
	own, err := d.ownDisks(ctx, req.Identity)
	if err != nil && !isIncomplete(err, req.Config.Zone) {
		return driver.Instance{}, err
	}
	if err := d.deleteDetached(ctx, own); err != nil {
		return driver.Instance{}, err
	}
	if len(own) > 0 {
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	return driver.Instance{}, fmt.Errorf("the name %q is in use in zone %q, by an instance that is being created or deleted, or by a disk", req.Identity.Name, req.Config.Zone)
}
