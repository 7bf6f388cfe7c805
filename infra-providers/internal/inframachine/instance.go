// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// settle is the pause before a deletion is verified again when the cloud gives no hint.
const settle = 5 * time.Second

// instance makes sure that the machine has its instance. With a providerID there was one: it is read and
// never made again. Without one it is created, which finds it when an earlier answer was lost.
func (r *Reconciler[M, C]) instance(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	cloud, err := r.Accounts.Driver(ctx, job.machine)
	if err != nil {
		return r.failed(job, err)
	}
	if job.machine.GetProviderID() == "" {
		return r.create(ctx, job, cloud)
	}
	r.made.remove(job.machine.GetUID())
	job.observed, err = cloud.Get(ctx, job.identity())
	switch {
	case driver.IsNotFound(err):
		job.observed = driver.Instance{State: driver.Terminated}
		return ctrl.Result{}, nil
	case err != nil:
		return r.failed(job, fmt.Errorf("reading instance: %w", err))
	}
	if job.machine.GetAnnotations()[infrav1.IdentityAnnotation] == "" {
		// A move or restore lost the annotation; the tags still know who this is.
		setIdentity(job.machine, job.observed.Identity.UID)
	}
	return ctrl.Result{}, nil
}

// report writes what the cloud says into the status.
func (r *Reconciler[M, C]) report(_ context.Context, job *job[M, C]) (ctrl.Result, error) {
	status, seen := job.machine.GetStatus(), job.observed
	setInstance(job.machine, seen)
	setGuest(job.machine, seen.Guest)
	if seen.State == driver.Terminated {
		status.InstanceState = "Missing"
		return ctrl.Result{}, nil
	}
	status.InstanceState = string(seen.State)
	status.Addresses = seen.Addresses
	status.FailureDomain = seen.FailureDomain
	if seen.State == driver.Running {
		status.Initialization.Provisioned = ptr.To(true)
	}
	return ctrl.Result{RequeueAfter: seen.PollAfter}, nil
}

// remove asks the cloud to delete the instance and reads whether it is gone.
func (r *Reconciler[M, C]) remove(ctx context.Context, job *job[M, C]) (gone bool, result ctrl.Result, err error) {
	id := job.identity()
	if id.UID == "" && id.ProviderID == "" {
		return true, ctrl.Result{}, nil
	}
	cloud, err := r.Accounts.Driver(ctx, job.machine)
	if err != nil {
		return false, ctrl.Result{}, err
	}
	if asked(job.machine) {
		left, err := cloud.Get(ctx, id)
		switch {
		case ended(left, err):
			return true, ctrl.Result{}, nil
		case err == nil && left.State == driver.Stopping:
			job.observed = left
			return false, after(left), nil
		}
	}
	if id, err = ask(ctx, cloud, id); driver.IsNotOwned(err) {
		// What carries our name belongs to somebody else, so nothing is ours.
		return true, ctrl.Result{}, nil
	} else if err != nil {
		return false, ctrl.Result{}, err
	}
	left, err := cloud.Get(ctx, id)
	switch {
	case ended(left, err):
		return true, ctrl.Result{}, nil
	case err != nil:
		return false, ctrl.Result{}, fmt.Errorf("verifying: %w", err)
	}
	job.observed = left
	job.machine.GetStatus().InstanceState = string(left.State)
	return false, after(left), nil
}

// ended reports whether a read proves that an instance is gone.
func ended(left driver.Instance, err error) bool {
	return driver.IsNotFound(err) || err == nil && left.State == driver.Terminated
}

// ask deletes the instance and returns the identity under which the cloud knew it: a providerID that
// names somebody else's instance is dropped, and ours, if any, is found by its UID.
func ask[C any](ctx context.Context, cloud driver.Driver[C], id driver.Identity) (driver.Identity, error) {
	err := cloud.Delete(ctx, id)
	if driver.IsNotOwned(err) && id.UID != "" && id.ProviderID != "" {
		id.ProviderID = ""
		err = cloud.Delete(ctx, id)
	}
	return id, err
}

// asked reports whether the deletion was already asked for, so that a slow cloud is not asked each time.
func asked[M driver.Machine](machine M) bool {
	ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition)
	return ready != nil && ready.Reason == DeletingReason
}

func after(left driver.Instance) ctrl.Result {
	if left.PollAfter > 0 {
		return ctrl.Result{RequeueAfter: left.PollAfter}
	}
	return ctrl.Result{RequeueAfter: settle}
}

// failed tells a failure in the Ready condition and decides when to try again. What may pass by itself
// says nothing about an instance that runs, so it does not touch the condition then.
func (r *Reconciler[M, C]) failed(job *job[M, C], err error) (ctrl.Result, error) {
	says := judge(err)
	running := ptr.Deref(job.machine.GetStatus().Initialization.Provisioned, false) && job.machine.GetDeletionTimestamp().IsZero()
	if !says.Passing || !running {
		setWaiting(job.machine, says.Reason, err.Error()+says.Advice)
	}
	if says.Reason == UnauthorizedReason {
		r.Accounts.Refused(job.machine)
	}
	switch {
	case says.Terminal:
		job.waiting = true
		return ctrl.Result{}, nil
	case says.Retry > 0:
		return ctrl.Result{RequeueAfter: says.Retry}, nil
	default:
		return ctrl.Result{}, err
	}
}
