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
	"drover.io/infra-providers/internal/machinestatus"
)

// verifyInterval is the pause before a deletion is verified again when the driver sets no PollAfter.
const verifyInterval = 5 * time.Second

// maxAddresses is how many addresses a status may have, and maxText how many bytes one of them or a failure domain.
const maxAddresses, maxText = 256, 256

// ensureInstance makes sure that the machine has its instance. With a providerID there was one: it is read and never
// created again. Without one it is created, which finds it when an earlier answer was lost.
func (r *Reconciler[M, C]) ensureInstance(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return r.failed(ctx, s, err)
	}
	if pinned := account.Pinned(s.machine); pinned != "" {
		setAccount(s.machine, pinned) // the credentials lead there: Accounts.Driver has checked it
	}
	if s.machine.GetProviderID() == "" {
		return r.create(ctx, s, cloud)
	}
	r.createdIDs.Delete(s.machine.GetUID())
	return r.readInstance(ctx, s, cloud)
}

// readInstance reads the instance that the providerID names.
func (r *Reconciler[M, C]) readInstance(ctx context.Context, s *state[M, C], cloud account.Account[C]) (_ ctrl.Result, err error) {
	s.observed, err = cloud.Get(ctx, s.identity())
	if driver.IsNotFound(err) || driver.IsNotOwned(err) {
		corrected, correctErr := r.correctIdentity(ctx, s, cloud)
		switch {
		case correctErr != nil:
			return r.failed(ctx, s, correctErr)
		case corrected:
			s.waiting = true
			return ctrl.Result{}, nil
		}
	}
	switch {
	case driver.IsNotFound(err):
		s.observed = driver.Instance{State: driver.Terminated}
		return ctrl.Result{}, nil
	case err != nil:
		return r.failed(ctx, s, &machinestatus.CallError{Doing: "reading", Err: err})
	}
	if uid := s.observed.Identity.UID; s.machine.GetAnnotations()[infrav1.IdentityAnnotation] == "" && len(uid) <= maxText {
		// A restore lost the annotation; the tags still have the identity.
		setIdentity(s.machine, uid)
	}
	if account.Pinned(s.machine) != "" {
		return ctrl.Result{}, nil
	}
	// An earlier release created it. It was found here, so it is in this account.
	id, err := cloud.ID(ctx)
	if err != nil {
		return r.failed(ctx, s, fmt.Errorf("identifying the account: %w", err))
	}
	setAccount(s.machine, id)
	return ctrl.Result{}, nil
}

// setStatus writes the instance that was observed into the status.
func (r *Reconciler[M, C]) setStatus(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	status, observed := s.machine.GetStatus(), s.observed
	machinestatus.SetInstance(s.machine, observed)
	machinestatus.SetGuest(s.machine, observed.Guest)
	if observed.State == driver.Terminated {
		status.InstanceState = "Missing"
		return ctrl.Result{}, nil
	}
	status.InstanceState = string(observed.State)
	status.Addresses = storable(slices.Concat(observed.Addresses, observed.Reported))
	status.CloudAddresses = cloudAddresses(observed)
	status.FailureDomain = storableText(observed.FailureDomain)
	if observed.State == driver.Running {
		status.Initialization.Provisioned = ptr.To(true)
	}
	return ctrl.Result{RequeueAfter: observed.PollAfter}, nil
}

// storableText returns a text that names something in the cloud if a status may have it, and nothing otherwise: a part of a
// name is the name of something else.
func storableText(text string) string {
	if len(text) > maxText {
		return ""
	}
	return text
}

// storable returns those of the addresses that a status may have: root in a guest may report more, and longer ones.
func storable(addresses []clusterv1.MachineAddress) []clusterv1.MachineAddress {
	all := slices.DeleteFunc(slices.Clone(addresses), func(a clusterv1.MachineAddress) bool { return storableText(a.Address) == "" })
	return all[:min(len(all), maxAddresses)]
}

// cloudAddresses are the addresses that the cloud itself gave to an instance, each once.
func cloudAddresses(observed driver.Instance) []string {
	var all []string
	for _, address := range storable(observed.Addresses) {
		if !slices.Contains(all, address.Address) {
			all = append(all, address.Address)
		}
	}
	return all
}

// deleteInstance deletes the instance and reads whether it still exists. It sets state.removal for the event.
func (r *Reconciler[M, C]) deleteInstance(ctx context.Context, s *state[M, C]) (gone bool, result ctrl.Result, err error) {
	if !claimed(s.machine) {
		// No creation was requested, so nothing in the cloud is this machine's, whatever its spec names.
		s.removal = machinestatus.InstanceNeverCreated(s.machine.GetProviderID())
		return true, ctrl.Result{}, nil
	}
	id := s.identity()
	createdID, _ := r.createdIDs.Get(s.machine.GetUID())
	id.ProviderID = cmp.Or(id.ProviderID, createdID)
	if id.UID == "" && id.ProviderID == "" {
		return false, ctrl.Result{}, machinestatus.ErrIdentityUnknown
	}
	s.removal = machinestatus.InstanceDeleted(id.ProviderID)
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return false, ctrl.Result{}, err
	}
	if deletionRequested(s.machine) {
		if done, gone, result, err := r.continueDeletion(ctx, s, cloud, id); done {
			return gone, result, err
		}
	}
	id, notOwned, err := requestDeletion(ctx, cloud, id)
	switch {
	case err != nil:
		return false, ctrl.Result{}, err
	case notOwned != nil:
		s.removal = machinestatus.InstanceNotOwned(notOwned)
	}
	found, err := cloud.Get(ctx, id)
	switch {
	case isGone(found, err), notOwned != nil && driver.IsNotOwned(err) && !driver.IsUntagged(err):
		return true, ctrl.Result{}, nil
	case err != nil:
		return false, ctrl.Result{}, fmt.Errorf("verifying: %w", err)
	}
	s.observed = found
	s.machine.GetStatus().InstanceState = string(found.State)
	return false, verifyAfter(found), nil
}

// continueDeletion reads an instance whose deletion was requested before. It is done unless the deletion has to be
// requested again.
func (r *Reconciler[M, C]) continueDeletion(ctx context.Context, s *state[M, C], cloud driver.Driver[C], id driver.Identity) (done, gone bool, result ctrl.Result, err error) {
	found, err := cloud.Get(ctx, id)
	switch {
	case driver.IsNotFound(err):
		// What was created beside it may be deletable only now: Delete is called once more.
		_, notOwned, err := requestDeletion(ctx, cloud, id)
		return err != nil || notOwned == nil, err == nil, ctrl.Result{}, err
	case isGone(found, err):
		return true, true, ctrl.Result{}, nil
	case err == nil && found.State == driver.Stopping && found.StepDue:
		// The removal takes several steps, and Delete takes the next one.
		_, notOwned, err := requestDeletion(ctx, cloud, id)
		s.observed = found
		return err != nil || notOwned == nil, false, verifyAfter(found), err
	case err == nil && found.State == driver.Stopping:
		s.observed = found
		return true, false, verifyAfter(found), nil
	}
	return false, false, ctrl.Result{}, nil
}

// isGone reports whether a read proves that an instance does not exist any more.
func isGone(found driver.Instance, err error) bool {
	return driver.IsNotFound(err) || err == nil && found.State == driver.Terminated
}

// requestDeletion deletes the instance and returns the identity under which its deletion is verified. A providerID that
// names the instance of another owner is dropped, and the machine's own, if any, is deleted by its UID; notOwned is what
// the providerID named. One that names an instance without tags may be the machine's own, so it is not dropped; the one
// with its UID is deleted all the same.
func requestDeletion[C any](ctx context.Context, cloud driver.Driver[C], id driver.Identity) (_ driver.Identity, notOwned *driver.NotOwnedError, err error) {
	err = cloud.Delete(ctx, id)
	if !errors.As(err, &notOwned) {
		return id, nil, err
	}
	recorded := id.ProviderID != ""
	if id.UID == "" || !recorded {
		if notOwned.Untagged() {
			return id, nil, err
		}
		return id, notOwned, nil
	}
	id.ProviderID = ""
	byUID := cloud.Delete(ctx, id)
	switch {
	case byUID != nil && !driver.IsNotOwned(byUID), driver.IsUntagged(byUID):
		return id, nil, byUID
	case notOwned.Untagged():
		return id, nil, err
	default:
		return id, notOwned, nil
	}
}

// deletionRequested reports whether the deletion was requested before, so that a slow cloud is not called each time.
func deletionRequested[M driver.Machine](machine M) bool {
	ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition)
	return ready != nil && ready.Reason == infrav1.DeletingReason
}

func verifyAfter(found driver.Instance) ctrl.Result {
	return ctrl.Result{RequeueAfter: cmp.Or(max(found.PollAfter, 0), verifyInterval)}
}

// failed writes a failure into the Ready condition and decides when to try again. A failure that may pass by itself does
// not change the condition of an instance that runs.
func (r *Reconciler[M, C]) failed(ctx context.Context, s *state[M, C], err error) (ctrl.Result, error) {
	problem := machinestatus.ProblemOf(s.machine, err)
	if problem.Unreported {
		return ctrl.Result{RequeueAfter: problem.Retry}, nil
	}
	running := ptr.Deref(s.machine.GetStatus().Initialization.Provisioned, false) && s.machine.GetDeletionTimestamp().IsZero()
	if !problem.Transient || !running {
		machinestatus.SetWaiting(s.machine, problem.Reason, err.Error()+problem.Advice)
	}
	if problem.Reason == infrav1.UnauthorizedReason || problem.Reason == infrav1.AccountMismatchReason {
		r.Accounts.Refused(ctx, s.machine, err)
	}
	switch {
	case problem.Terminal:
		s.waiting = true
		return ctrl.Result{}, nil
	case problem.Retry > 0:
		return ctrl.Result{RequeueAfter: problem.Retry + time.Duration(r.Jitter()*float64(problem.Spread))}, nil
	default:
		return ctrl.Result{}, err
	}
}
