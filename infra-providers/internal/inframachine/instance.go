// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
)

// settle is the pause before a deletion is verified again when the cloud gives no hint.
const settle = 5 * time.Second

// errIdentityUnknown means that a machine may have an instance and nothing says which.
var errIdentityUnknown = errors.New("neither the machine's annotation nor its providerID says which instance was made for it")

// instance makes sure that the machine has its instance. With a providerID there was one: it is read and
// never made again. Without one it is created, which finds it when an earlier answer was lost.
func (r *Reconciler[M, C]) instance(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return r.failed(s, err)
	}
	if pinned := account.Pinned(s.machine); pinned != "" {
		setAccount(s.machine, pinned) // the credentials lead there, or there would be an error
	}
	if s.machine.GetProviderID() == "" {
		return r.create(ctx, s, cloud)
	}
	r.made.remove(s.machine.GetUID())
	return r.read(ctx, s, cloud)
}

// read observes the instance that the providerID names.
func (r *Reconciler[M, C]) read(ctx context.Context, s *state[M, C], cloud account.Account[C]) (_ ctrl.Result, err error) {
	s.observed, err = cloud.Get(ctx, s.identity())
	switch {
	case driver.IsNotFound(err):
		s.observed = driver.Instance{State: driver.Terminated}
		return ctrl.Result{}, nil
	case err != nil:
		return r.failed(s, fmt.Errorf("reading instance: %w", err))
	}
	if s.machine.GetAnnotations()[infrav1.IdentityAnnotation] == "" {
		// A restore lost the annotation; the tags still know who this is.
		setIdentity(s.machine, s.observed.Identity.UID)
	}
	if account.Pinned(s.machine) != "" {
		return ctrl.Result{}, nil
	}
	// An earlier release made it. It was found here, so it is in this account.
	id, err := cloud.ID(ctx)
	if err != nil {
		return r.failed(s, fmt.Errorf("identifying the account: %w", err))
	}
	setAccount(s.machine, id)
	return ctrl.Result{}, nil
}

// report writes what the cloud says into the status.
func (r *Reconciler[M, C]) report(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	status, seen := s.machine.GetStatus(), s.observed
	setInstance(s.machine, seen)
	setGuest(s.machine, seen.Guest)
	if seen.State == driver.Terminated {
		status.InstanceState = "Missing"
		return ctrl.Result{}, nil
	}
	status.InstanceState = string(seen.State)
	status.Addresses = slices.Concat(seen.Addresses, seen.Reported)
	status.VouchedAddresses = vouched(seen)
	status.FailureDomain = seen.FailureDomain
	if seen.State == driver.Running {
		status.Initialization.Provisioned = ptr.To(true)
	}
	return ctrl.Result{RequeueAfter: seen.PollAfter}, nil
}

// vouched are the addresses that the cloud itself gave to an instance, each once.
func vouched(seen driver.Instance) []string {
	var all []string
	for _, address := range seen.Addresses {
		if !slices.Contains(all, address.Address) {
			all = append(all, address.Address)
		}
	}
	return all
}

// remove asks the cloud to delete the instance and reads whether it is gone. Once it is, job.end says what became
// of it.
func (r *Reconciler[M, C]) remove(ctx context.Context, s *state[M, C]) (gone bool, result ctrl.Result, err error) {
	if !claimed(s.machine) {
		// Nothing was asked for, so nothing in the cloud is this machine's, whatever its spec names.
		s.end = unclaimed(s.machine.GetProviderID())
		return true, ctrl.Result{}, nil
	}
	id := s.identity()
	id.ProviderID = cmp.Or(id.ProviderID, r.made.get(s.machine.GetUID()))
	if id.UID == "" && id.ProviderID == "" {
		return false, ctrl.Result{}, errIdentityUnknown
	}
	s.end = deleted(id.ProviderID)
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return false, ctrl.Result{}, err
	}
	if asked(s.machine) {
		if done, gone, result, err := r.awaitEnd(ctx, s, cloud, id); done {
			return gone, result, err
		}
	}
	id, others, err := ask(ctx, cloud, id)
	switch {
	case err != nil:
		return false, ctrl.Result{}, err
	case others != nil:
		s.end = foreign(others)
	}
	left, err := cloud.Get(ctx, id)
	switch {
	case ended(left, err), others != nil && driver.IsNotOwned(err) && !driver.IsUntagged(err):
		return true, ctrl.Result{}, nil
	case err != nil:
		return false, ctrl.Result{}, fmt.Errorf("verifying: %w", err)
	}
	s.observed = left
	s.machine.GetStatus().InstanceState = string(left.State)
	return false, after(left), nil
}

// awaitEnd reads what became of an instance that was asked to be deleted. It is done unless the deletion has to be asked
// for again.
func (r *Reconciler[M, C]) awaitEnd(ctx context.Context, s *state[M, C], cloud driver.Driver[C], id driver.Identity) (done, gone bool, result ctrl.Result, err error) {
	left, err := cloud.Get(ctx, id)
	switch {
	case driver.IsNotFound(err):
		// What was made beside it may have waited for its end: the cloud is asked once more.
		_, others, err := ask(ctx, cloud, id)
		return err != nil || others == nil, err == nil, ctrl.Result{}, err
	case ended(left, err):
		return true, true, ctrl.Result{}, nil
	case err == nil && left.State == driver.Stopping && left.StepDue:
		// The removal takes several steps, and Delete takes the next one.
		_, others, err := ask(ctx, cloud, id)
		s.observed = left
		return err != nil || others == nil, false, after(left), err
	case err == nil && left.State == driver.Stopping:
		s.observed = left
		return true, false, after(left), nil
	}
	return false, false, ctrl.Result{}, nil
}

// ended reports whether a read proves that an instance is gone.
func ended(left driver.Instance, err error) bool {
	return driver.IsNotFound(err) || err == nil && left.State == driver.Terminated
}

// ask deletes the instance and returns the identity under which it is verified to be gone. A providerID that names
// somebody else's instance is dropped, and ours, if any, is deleted by its UID; others is what it named. One that
// names an instance without tags may be ours, so it is not dropped; ours by UID is deleted all the same.
func ask[C any](ctx context.Context, cloud driver.Driver[C], id driver.Identity) (_ driver.Identity, others *driver.NotOwnedError, err error) {
	err = cloud.Delete(ctx, id)
	if !errors.As(err, &others) {
		return id, nil, err
	}
	recorded := id.ProviderID != ""
	if id.UID == "" || !recorded {
		if others.Untagged() {
			return id, nil, err
		}
		return id, others, nil
	}
	id.ProviderID = ""
	again := cloud.Delete(ctx, id)
	switch {
	case again != nil && !driver.IsNotOwned(again), driver.IsUntagged(again):
		return id, nil, again
	case others.Untagged():
		return id, nil, err
	default:
		return id, others, nil
	}
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
func (r *Reconciler[M, C]) failed(s *state[M, C], err error) (ctrl.Result, error) {
	says := judge(s.machine, err)
	if says.Silent {
		return ctrl.Result{RequeueAfter: says.Retry}, nil
	}
	running := ptr.Deref(s.machine.GetStatus().Initialization.Provisioned, false) && s.machine.GetDeletionTimestamp().IsZero()
	if !says.Passing || !running {
		setWaiting(s.machine, says.Reason, err.Error()+says.Advice)
	}
	if says.Reason == UnauthorizedReason || says.Reason == AccountMismatchReason {
		r.Accounts.Refused(s.machine)
	}
	switch {
	case says.Terminal:
		s.waiting = true
		return ctrl.Result{}, nil
	case says.Retry > 0:
		return ctrl.Result{RequeueAfter: says.Retry}, nil
	default:
		return ctrl.Result{}, err
	}
}
