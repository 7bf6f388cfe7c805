// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/yandex/request"
)

// instanceObject is the object of a creation that is the instance. The others are disks.
const instanceObject = "instance"

// maxFailures is how many failures of an earlier process one call passes.
const maxFailures = 16

// Create implements driver.Driver. The disks are created first. The answer to each creation is only that it has begun: whether
// the zone has capacity is known at the end of its operation, so Create is unfinished until then.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	creation, known := d.creations.Get(req.Identity, instanceObject)
	if known && creation.Operation != "" {
		return d.continueCreation(ctx, req, creation)
	}
	found, err := d.findListed(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil {
		return d.accepted(req.Identity, found)
	}
	image, err := d.lookup.Image(ctx, req.Config.Spec)
	if err != nil {
		return driver.Instance{}, toCreateError(err, "spec.image")
	}
	input := request.Input{Spec: req.Config.Spec, Zone: req.Config.Zone, Identity: req.Identity, UserData: req.UserData, Format: req.Format}
	message, err := request.Instance(input)
	if err != nil {
		return driver.Instance{}, err
	}
	own, err := d.ownDisks(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if found, err := d.findAttached(ctx, req.Identity, own); err != nil || found != nil {
		if err != nil {
			return driver.Instance{}, err
		}
		return d.accepted(req.Identity, found)
	}
	disks, err := d.ensureDisks(ctx, req, request.Disks(input, image), own)
	if err != nil {
		return driver.Instance{}, err
	}
	request.Attach(message, req.Config.Spec, disks)
	return d.createInstance(ctx, req, message, disks)
}

// createInstance requests the instance, whose disks exist.
func (d *Driver) createInstance(ctx context.Context, req driver.CreateRequest[InstanceConfig], message *compute.CreateInstanceRequest, disks []*compute.Disk) (driver.Instance, error) {
	begun, err := d.send(ctx, req.Identity, instanceObject, message, func(ctx context.Context) (*operation.Operation, error) {
		return d.instances.Create(ctx, message)
	})
	switch {
	case isAlreadyExists(err):
		return d.findNamesake(ctx, req)
	case isNotFound(err): // perhaps it was a disk that is not found
		for _, disk := range disks {
			if still, err := d.readDisk(ctx, disk.Id); err != nil || still == nil {
				return driver.Instance{}, fmt.Errorf("the disk %q is gone: %w", disk.Name, errCreating)
			}
		}
		return driver.Instance{}, toCreateError(err, instanceField)
	case err != nil:
		return driver.Instance{}, toCreateError(err, instanceField)
	}
	logr.FromContextOrDiscard(ctx).Info("requested instance", "operation", begun.Id)
	creation, _ := d.creations.Get(req.Identity, instanceObject)
	return d.conclude(ctx, req, begun, creation)
}

// send requests the creation of an object. It is recorded before, so that its absence is not concluded while the answer is
// missing. Errors are the API's own or of package driver.
//
// The key is the same after a restart, so that the first operation is found again. If an earlier process has seen that fail,
// the next key is used, as that process has done.
func (d *Driver) send(ctx context.Context, id driver.Identity, object string, message proto.Message, call func(context.Context) (*operation.Operation, error)) (*operation.Operation, error) {
	for range maxFailures {
		unanswered, known := d.creations.Get(id, object)
		known = known && d.creations.MayAppear(unanswered)
		key := d.key(id, object, message)
		if known && unanswered.Key != key {
			return nil, errNotListedYet
		}
		d.creations.Set(id, object, inflight.Creation{Key: key})
		begun, err := call(withKey(ctx, key))
		switch {
		case isRefusal(err) && known:
			d.creations.Keep(id, object, unanswered)
			if hasCode(err, codes.ResourceExhausted) { // the request before may still arrive
				return nil, fmt.Errorf("%w: %w", errNotListedYet, withoutKind(err))
			}
			return nil, err
		case isRefusal(err):
			d.creations.End(id, object)
			return nil, err
		case err != nil:
			return nil, err
		}
		d.creations.Set(id, object, inflight.Creation{Key: key, Operation: begun.Id, ID: objectID(begun)})
		if known || begun.GetError() == nil || !begun.CreatedAt.AsTime().Before(d.creations.Started()) {
			return begun, nil
		}
		d.creations.Fail(id, object)
	}
	return nil, &driver.UnfinishedError{Err: errCreating}
}

// withoutKind returns an error with the text of an answer that is no answer any more.
func withoutKind(err error) error { return errors.New(toError(err).Error()) }

// key returns an idempotency key that derives from the machine, the request and the number of failures. A repeated key is
// answered with the first operation, also if that has failed, so another attempt needs another one.
func (d *Driver) key(id driver.Identity, object string, message proto.Message) string {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(err) // its texts are checked to be UTF-8
	}
	request := sha256.Sum256(content)
	machine := inflight.Machine(id)
	text, err := json.Marshal([]any{machine.UID, machine.Name, machine.Owner.Namespace, machine.Owner.Name, object, hex.EncodeToString(request[:]), d.creations.Attempt(id, object)})
	if err != nil {
		panic(err) // strings and numbers can always be marshalled
	}
	sum := sha256.Sum256(text)
	return uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String()
}

// objectID returns the ID of the object that an operation creates.
func objectID(begun *operation.Operation) string {
	if begun.GetMetadata() == nil {
		return ""
	}
	message, err := begun.Metadata.UnmarshalNew()
	if err != nil {
		return ""
	}
	switch metadata := message.(type) {
	case *compute.CreateInstanceMetadata:
		return metadata.InstanceId
	case *compute.CreateDiskMetadata:
		return metadata.DiskId
	default:
		return ""
	}
}

// continueCreation reads the operation of a creation.
func (d *Driver) continueCreation(ctx context.Context, req driver.CreateRequest[InstanceConfig], creation inflight.Creation) (driver.Instance, error) {
	begun, err := d.readOperation(ctx, creation.Operation)
	if err != nil {
		return driver.Instance{}, err
	}
	if begun == nil { // it is not kept for ever
		d.creations.End(req.Identity, instanceObject)
		return driver.Instance{}, errNotListedYet
	}
	return d.conclude(ctx, req, begun, creation)
}

// conclude returns the instance of an operation that has ended, or why there is none.
func (d *Driver) conclude(ctx context.Context, req driver.CreateRequest[InstanceConfig], begun *operation.Operation, creation inflight.Creation) (driver.Instance, error) {
	switch {
	case !begun.Done:
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	case begun.GetError() != nil:
		return d.refused(ctx, req, creation, toOperationError(begun.GetError(), req.Config, instanceField))
	}
	found, err := d.read(ctx, creation.ID)
	if err != nil {
		return driver.Instance{}, err
	}
	if found == nil {
		d.creations.Fail(req.Identity, instanceObject)
		return driver.Instance{}, fmt.Errorf("the instance %q was deleted as soon as it was created", req.Identity.Name)
	}
	return d.accepted(req.Identity, found)
}

// refused returns why a creation failed, after it is certain that there is no instance. What the creation left is deleted, and
// another process may have requested the same.
func (d *Driver) refused(ctx context.Context, req driver.CreateRequest[InstanceConfig], creation inflight.Creation, cause error) (driver.Instance, error) {
	left, err := d.read(ctx, creation.ID)
	if err != nil {
		return driver.Instance{}, err
	}
	if left != nil {
		if err := d.deleteLeft(ctx, req.Identity, left); err != nil {
			return driver.Instance{}, err
		}
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	listed, err := d.findListed(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	d.creations.Fail(req.Identity, instanceObject)
	if listed != nil && req.Identity.Check(toInstance(listed).Identity) == nil {
		return d.accepted(req.Identity, listed)
	}
	return driver.Instance{}, cause
}

// deleteLeft deletes the instance that a failed creation left.
func (d *Driver) deleteLeft(ctx context.Context, id driver.Identity, left *compute.Instance) error {
	if _, err := id.Checked(toInstance(left)); err != nil {
		return err
	}
	if left.Status == compute.Instance_DELETING {
		return nil
	}
	if _, err := d.instances.Delete(ctx, &compute.DeleteInstanceRequest{InstanceId: left.Id}); err != nil && !isNotFound(err) {
		return fmt.Errorf("deleting what a failed creation left: %w", toError(err))
	}
	return nil
}

// accepted returns an instance that was found, unless its creation may still fail, or has failed: an earlier process may have
// begun to delete what that left.
func (d *Driver) accepted(id driver.Identity, found *compute.Instance) (driver.Instance, error) {
	instance, err := id.Checked(toInstance(found))
	if err != nil {
		return driver.Instance{}, err
	}
	if mayFail(found) || found.Status == compute.Instance_DELETING {
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	return instance, nil // its creation is remembered, because a list may not have it yet
}

// findNamesake returns the instance whose name is in use if it is this machine's: requested by an earlier process with another
// request. While another machine's instance has the name, the creation fails until the name is free.
func (d *Driver) findNamesake(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	for found, err := range d.listInstances(ctx, byName(req.Identity.Name)) {
		if err != nil {
			return driver.Instance{}, err
		}
		instance := toInstance(found)
		if req.Identity.Check(instance.Identity) == nil {
			return d.accepted(req.Identity, found)
		}
		return driver.Instance{}, fmt.Errorf("the folder has another instance with the name of this machine (%s): delete one of them", instance.ProviderID)
	}
	return driver.Instance{}, fmt.Errorf("the name %q is in use, by an instance that is being created or deleted, or as the host name of another one in the network", req.Identity.Name)
}
