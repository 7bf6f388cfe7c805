// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/nutanix/prism"
	"drover.io/infra-providers/nutanix/request"
)

// The objects of creations that are recorded: the virtual machine, and its start, which is recorded in the same way.
const (
	vmObject    = "virtual machine"
	startObject = "start"
)

// shortage is a virtual machine that could not be started, and why. The series is that of its creation.
type shortage struct {
	vmID, series string
	cause        error
}

// Create implements driver.Driver. The API creates a virtual machine stopped, and only its start shows whether the cluster has
// room for it. So Create is unfinished until it runs; one that cannot be started is deleted again, before another cluster may be
// tried.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	if known, ok := d.shortages.Get(inflight.Machine(req.Identity)); ok {
		return driver.Instance{}, d.giveUp(ctx, req.Identity, known)
	}
	if creation, ok := d.creations.Get(req.Identity, vmObject); ok && creation.Operation != "" {
		return d.continueCreation(ctx, req, creation)
	}
	found, err := d.findListed(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		return d.start(ctx, req, found[0])
	}
	if err := d.verifyAccount(ctx); err != nil {
		return driver.Instance{}, err
	}
	references, err := d.lookup.References(ctx, req.Config.Spec)
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	owner, cached, err := d.ownerCategory(ctx, req.Identity.Owner)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, err := request.VM(request.Input{Spec: req.Config.Spec, Identity: req.Identity, References: references, OwnerCategory: owner, UserData: req.UserData})
	if err != nil {
		return driver.Instance{}, err
	}
	err = d.requestVM(ctx, req, vm)
	if cached && driver.IsInvalidConfiguration(err) && d.repeated.Allow(inflight.Machine(req.Identity)) { // or the category was deleted
		err = &driver.UnfinishedError{Err: fmt.Errorf("requesting the virtual machine once more, with the category %s of the Cluster read again: %s", ownerKey, err.Error())}
	}
	return driver.Instance{}, err
}

// requestVM requests the virtual machine, and is unfinished then.
func (d *Driver) requestVM(ctx context.Context, req driver.CreateRequest[InstanceConfig], vm *config.Vm) error {
	err := d.send(req.Identity, vmObject, req.Config, func(requestID string) (prism.Begun, error) {
		return d.prism.CreateVM(ctx, vm, requestID)
	})
	if err != nil {
		d.owners.Delete(ownerValue(req.Identity.Owner)) // it may be gone
		return toCreateError(err)
	}
	creation, _ := d.creations.Get(req.Identity, vmObject)
	logr.FromContextOrDiscard(ctx).Info("requested virtual machine", "task", creation.Operation)
	return &driver.UnfinishedError{Err: errCreating}
}

// send requests something of a machine, with a token that derives from the machine, what is requested, and the number of attempts
// to request the same that have failed. It is recorded before, so that its absence is not concluded while the answer is missing.
// Prism Central answers a token that it has had with the task that it began then, also if that has failed, so another attempt
// needs another one. A process that does not know of the failures is answered with them one after another, as each is counted for
// what was requested alone; a refusal begins no task, and that of a creation is not counted. Errors are those of package prism.
func (d *Driver) send(id driver.Identity, object string, content any, call func(requestID string) (prism.Begun, error)) error {
	unanswered, known := d.creations.Get(id, object)
	known = known && d.mayAppear(unanswered)
	series := seriesOf(id, object, content)
	key := requestID(id, object, content, d.creations.Attempt(id, series))
	if known && unanswered.Key != key {
		return errNotListedYet
	}
	d.creations.Set(id, object, inflight.Creation{Key: key, Series: series})
	begun, err := call(key)
	switch {
	case isRefusal(err) && known: // the request before may still arrive
		d.creations.Keep(id, object, unanswered)
		return err
	case isRefusal(err) && object == startObject: // which may be repeated for the same token, and a second start does no harm
		d.creations.Fail(id, object)
		return err
	case isRefusal(err):
		d.creations.End(id, object)
		return err
	case err != nil:
		return err
	}
	d.creations.Set(id, object, inflight.Creation{Key: key, Series: series, Operation: begun.TaskID, Answered: begun.At})
	return nil
}

// mayAppear reports whether a request is under way, or may be although it had no answer.
func (d *Driver) mayAppear(creation inflight.Creation) bool {
	return creation.Operation != "" || d.clock.Since(creation.Sent) < creationTime
}

// seriesOf identifies attempts to request the same by the first of their tokens.
func seriesOf(id driver.Identity, object string, content any) string {
	return requestID(id, object, content, 0)
}

// requestID returns an idempotency token, which has the form of a random UUID. A UID alone does not identify a machine, because
// its author chooses it. The content is the configuration and not the request: what else a request has, such as bootstrap data,
// may be different when it is repeated.
func requestID(id driver.Identity, object string, content any, attempt int) string {
	machine := inflight.Machine(id)
	text, err := json.Marshal([]any{machine.UID, machine.Name, machine.Owner.Namespace, machine.Owner.Name, object, content, attempt})
	if err != nil {
		panic(err) // the types of the API can always be marshalled
	}
	sum := sha256.Sum256(text)
	return randomUUID([16]byte(sum[:16]))
}

// randomUUID returns the UUID of version 4 of random bytes.
func randomUUID(from uuid.UUID) string {
	from[6], from[8] = from[6]&0x0f|0x40, from[8]&0x3f|0x80
	return from.String()
}

// continueCreation reads the task of a creation.
func (d *Driver) continueCreation(ctx context.Context, req driver.CreateRequest[InstanceConfig], creation inflight.Creation) (driver.Instance, error) {
	task, err := d.awaited(ctx, req.Identity, vmObject, creation)
	if err != nil {
		return driver.Instance{}, err
	}
	vmID := createdVM(task)
	found, err := d.read(ctx, vmID)
	switch {
	case err != nil:
		return driver.Instance{}, err
	case !hasSucceeded(task) && (len(found) == 0 || isOff(found[0])): // otherwise another process has started it
		return driver.Instance{}, d.refused(ctx, req, found, task)
	case len(found) > 0:
		return d.start(ctx, req, found[0])
	case isEarlier(task, creation): // what an earlier process created, and deleted again
		d.creations.Fail(req.Identity, vmObject)
		d.creations.End(req.Identity, startObject)
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	case vmID == "":
		return driver.Instance{}, fmt.Errorf("the task %q has succeeded and names no virtual machine", creation.Operation)
	case d.clock.Since(creation.Sent) < inflight.Window && !d.changes.Has(vmID):
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	d.creations.Fail(req.Identity, vmObject)
	d.creations.End(req.Identity, startObject)
	return driver.Instance{}, fmt.Errorf("the virtual machine %q was deleted as soon as it was created", vmID)
}

// awaited returns the task of something that was requested once that has ended, and is unfinished until then. The failure of an
// earlier process's attempt is none of this request, so the next attempt is made.
func (d *Driver) awaited(ctx context.Context, id driver.Identity, object string, creation inflight.Creation) (*tasks.Task, error) {
	task, err := d.readTask(ctx, creation.Operation)
	switch {
	case err != nil:
		return nil, err
	case task == nil && d.clock.Since(creation.Sent) >= inflight.Window: // it is not kept for ever
		d.creations.End(id, object)
		return nil, errNotListedYet
	case task == nil || !hasEnded(task):
		return nil, &driver.UnfinishedError{Err: errCreating}
	case !hasSucceeded(task) && isEarlier(task, creation):
		d.creations.Fail(id, object)
		return nil, &driver.UnfinishedError{Err: errCreating}
	}
	return task, nil
}

// earlierMargin is how long before the answer to a repeated request its task may have ended, as after a lost first answer.
const earlierMargin = inflight.Window

// isEarlier reports whether a task ended long before the request that was answered with it, both by the clock of Prism Central, so
// that a list has what it left. One that has ended since is this request's, whoever began it.
func isEarlier(task *tasks.Task, creation inflight.Creation) bool {
	return task.CompletedTime != nil && !creation.Answered.IsZero() && task.CompletedTime.Before(creation.Answered.Add(-earlierMargin))
}

// refused returns why a creation failed, after it is certain that there is no virtual machine. What it left is deleted.
func (d *Driver) refused(ctx context.Context, req driver.CreateRequest[InstanceConfig], left []virtualMachine, task *tasks.Task) error {
	if len(left) > 0 {
		if _, err := req.Identity.Checked(left[0].instance); err != nil {
			return err
		}
		if err := d.deleteVM(ctx, left[0]); err != nil {
			return err
		}
		return d.removing(errRemoving, left[0])
	}
	d.owners.Delete(ownerValue(req.Identity.Owner)) // it may be gone
	d.creations.Fail(req.Identity, vmObject)
	return toTaskError(task, "creating the virtual machine")
}

// start starts the virtual machine of a machine, and is unfinished until it runs. Only a machine whose creation has not ended
// yet gets here, so none is started that was stopped.
func (d *Driver) start(ctx context.Context, req driver.CreateRequest[InstanceConfig], vm virtualMachine) (driver.Instance, error) {
	instance, err := req.Identity.Checked(vm.instance)
	if err != nil {
		return driver.Instance{}, err
	}
	switch deleting, err := d.isChanging(ctx, vm.instance.ID); {
	case err != nil:
		return driver.Instance{}, err
	case deleting:
		return driver.Instance{}, &driver.UnfinishedError{Err: fmt.Errorf("the virtual machine %q is being deleted", vm.instance.ID)}
	}
	switch vm.power {
	case config.POWERSTATE_OFF:
	case config.POWERSTATE_ON, config.POWERSTATE_PAUSED:
		d.failures.Delete(vm.instance.ID) // of this process, when another one had not started it yet
		return instance, nil              // its creation is remembered, because a list may not have it yet
	default: // it may be stopped, and nothing but Create starts it
		return driver.Instance{}, &driver.UnfinishedError{Err: errStarting}
	}
	if begun, ok := d.creations.Get(req.Identity, startObject); ok && begun.Operation != "" {
		return driver.Instance{}, d.continueStart(ctx, req, vm, begun)
	}
	err = d.send(req.Identity, startObject, vm.instance.ID, func(requestID string) (prism.Begun, error) {
		return d.prism.PowerOn(ctx, vm.instance.ID, vm.etag, requestID)
	})
	if err != nil && !prism.IsNotFound(err) { // a new one may not be known everywhere yet
		return driver.Instance{}, toError(err)
	}
	return driver.Instance{}, &driver.UnfinishedError{Err: errStarting}
}

// continueStart reads the task of the start of a virtual machine that was stopped when it was read. If it has failed, the
// virtual machine is deleted: Prism Central has no code for a lack of memory or of a GPU, and nothing else in the way is known.
func (d *Driver) continueStart(ctx context.Context, req driver.CreateRequest[InstanceConfig], vm virtualMachine, begun inflight.Creation) error {
	task, err := d.awaited(ctx, req.Identity, startObject, begun)
	if err != nil {
		return err
	}
	if hasSucceeded(task) {
		if d.clock.Since(begun.Sent) >= inflight.Window {
			d.creations.Fail(req.Identity, startObject)
		}
		return &driver.UnfinishedError{Err: errStarting}
	}
	again, err := d.read(ctx, vm.instance.ID)
	if err != nil {
		return err
	}
	if len(again) == 0 || !isOff(again[0]) {
		return &driver.UnfinishedError{Err: errStarting} // it was started or deleted by another call
	}
	if isRetryable(task) {
		d.creations.Fail(req.Identity, startObject)
		return toTaskError(task, "starting the virtual machine")
	}
	instanceType, zone := toOffering(req.Config)
	cause := &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: true, Err: toTaskError(task, "starting the virtual machine")}
	known := shortage{vmID: vm.instance.ID, series: seriesOf(req.Identity, vmObject, req.Config), cause: driver.Brief(cause)}
	d.shortages.Set(inflight.Machine(req.Identity), known)
	return d.giveUp(ctx, req.Identity, known)
}

// giveUp deletes a virtual machine that could not be started, and returns the cause once it is gone. One that may run was started
// by another process, which leads by now, or by its owner.
func (d *Driver) giveUp(ctx context.Context, id driver.Identity, known shortage) error {
	left, err := d.read(ctx, known.vmID)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		if _, err := id.Checked(left[0].instance); err != nil {
			return err
		}
		if deleting, err := d.isChanging(ctx, known.vmID); err != nil {
			return err
		} else if !deleting && !isOff(left[0]) {
			d.shortages.Delete(inflight.Machine(id))
			return &driver.UnfinishedError{Err: errStarting}
		}
		if err := d.deleteVM(ctx, left[0]); err != nil {
			return err
		}
		return d.removing(errGivingUp, left[0])
	}
	if err := d.verifyAccount(ctx); err != nil {
		return err
	}
	d.creations.Count(id, known.series)
	d.creations.End(id, vmObject)
	d.creations.End(id, startObject)
	d.shortages.Delete(inflight.Machine(id))
	return known.cause
}

// removing is an unfinished creation that waits for the removal of a virtual machine.
func (d *Driver) removing(cause error, vm virtualMachine) error {
	if failed := d.removalFailure(vm); failed != "" {
		cause = fmt.Errorf("%w; %s", cause, failed)
	}
	return &driver.UnfinishedError{Err: cause}
}

func isOff(vm virtualMachine) bool { return vm.power == config.POWERSTATE_OFF }
