// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/runtime/results"
)

// conflictRetry is the pause after a conflict of two writes.
const conflictRetry = time.Second

// begin stores the intent of one more restart, and calls the cloud after that: a process that ends in between finds the
// intent, and repeats the one call at most.
func (r *Reconciler[M, C]) begin(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	status := &s.remediation.Status
	status.Phase = infrav1.RestartRemediationRestarting
	status.Attempts = ptr.To(attempts(s.remediation) + 1)
	status.LastRestartTime = metav1.NewTime(r.Now())
	setProgressing(s.remediation, step{status: metav1.ConditionTrue, reason: infrav1.RestartingReason, message: count(s.remediation) + ": requesting it from the cloud"})
	if err := r.write(ctx, s, locked(s)); err != nil {
		return results.RequeueOnConflict(err) // it was written meanwhile, or the Machine is healthy and the remediation deleted
	}
	return r.requestRestart(ctx, s)
}

// requestRestart requests the restart from the cloud and stores the answer.
func (r *Reconciler[M, C]) requestRestart(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	err := s.cloudErr
	if err == nil {
		err = s.cloud.Restart(ctx, s.identity())
	}
	if err != nil {
		return r.refused(ctx, s, err)
	}
	s.remediation.Status.Phase = infrav1.RestartRemediationWaiting
	s.remediation.Status.LastRestartTime = metav1.NewTime(r.Now())
	next := waitForHealthStep(s.remediation, timeout(s.remediation))
	setProgressing(s.remediation, next)
	// The cloud has accepted it, whatever was written here meanwhile.
	if err := client.IgnoreNotFound(r.write(ctx, s, client.MergeFrom(s.before))); err != nil {
		return ctrl.Result{}, err
	}
	recordRestart(ctx, r.Events, s.machine, count(s.remediation))
	return ctrl.Result{RequeueAfter: next.requeueAfter}, nil
}

// refused writes why the cloud did not restart, and tries again or hands the Machine back.
func (r *Reconciler[M, C]) refused(ctx context.Context, s *state[M, C], cause error) (ctrl.Result, error) {
	problem := problemOf(cause)
	if problem.Unreported {
		return ctrl.Result{RequeueAfter: problem.Retry}, nil
	}
	if driver.IsUnauthorized(cause) {
		r.Accounts.Refused(ctx, s.infra, cause)
	}
	if problem.Terminal {
		return r.handBack(ctx, s, handBackStep(problem.Reason, cause.Error()))
	}
	setProgressing(s.remediation, idleStep(problem.Reason, count(s.remediation)+": "+cause.Error()+problem.Advice))
	result, err := r.save(ctx, s)
	left := since(s.facts(r.Now())).Add(timeout(s.remediation)).Sub(r.Now())
	return results.Earliest(result, ctrl.Result{RequeueAfter: max(min(problem.Retry, left), conflictRetry)}), err
}

// handBack requests that the owner of the Machine replaces it. The Machine is written first: if the process ends in
// between, the next one writes it again, which changes nothing.
func (r *Reconciler[M, C]) handBack(ctx context.Context, s *state[M, C], because step) (ctrl.Result, error) {
	before := s.machine.DeepCopy()
	if !meta.IsStatusConditionFalse(before.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
		meta.SetStatusCondition(&s.machine.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, ObservedGeneration: before.Generation,
			Message: errorreason.Truncate(fmt.Sprintf("RestartRemediation %s handed the Machine back: %s", s.remediation.Name, because.message)),
		})
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, s.machine, patch); err != nil {
			return results.RequeueOnConflict(fmt.Errorf("handing the Machine back: %w", err))
		}
	}
	s.remediation.Status.Phase = infrav1.RestartRemediationHandedBack
	setProgressing(s.remediation, step{status: because.status, reason: because.reason, message: "handed back to the owner of the Machine: " + because.message})
	if err := r.write(ctx, s, locked(s)); err != nil {
		return results.RequeueOnConflict(err)
	}
	recordHandBack(ctx, r.Events, s.machine, because)
	return ctrl.Result{}, nil
}

// save stores what changed, unless the remediation was changed since it was read.
func (r *Reconciler[M, C]) save(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	return results.RequeueOnConflict(r.write(ctx, s, locked(s)))
}

// locked is a patch that fails when the remediation was changed since it was read.
func locked[M driver.Machine, C any](s *state[M, C]) client.Patch {
	return client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
}

func (r *Reconciler[M, C]) write(ctx context.Context, s *state[M, C], patch client.Patch) error {
	if equality.Semantic.DeepEqual(s.before.Status, s.remediation.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, s.remediation, patch); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	s.before = s.remediation.DeepCopy()
	return nil
}
