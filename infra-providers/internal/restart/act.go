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
	"drover.io/runtime/results"
)

// again is the pause after a write that met another.
const again = time.Second

// begin stores the intent of one more restart, and only then asks the cloud: a process that dies in between finds
// it, and repeats the one call at most.
func (r *Reconciler[M, C]) begin(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	status := &s.remediation.Status
	status.Phase = infrav1.RestartRemediationRestarting
	status.Attempts = ptr.To(attempts(s.remediation) + 1)
	status.LastRestartTime = metav1.NewTime(r.Now())
	setProgressing(s.remediation, step{status: metav1.ConditionTrue, reason: RestartingReason, message: count(s.remediation) + ": asking the cloud"})
	if err := r.write(ctx, s, locked(s)); err != nil {
		return results.RequeueOnConflict(err) // somebody has written meanwhile, or the Machine is well and the remediation gone
	}
	return r.ask(ctx, s)
}

// ask asks the cloud for the restart and stores its answer.
func (r *Reconciler[M, C]) ask(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	err := s.cloudErr
	if err == nil {
		err = s.cloud.Restart(ctx, s.identity())
	}
	if err != nil {
		return r.refused(ctx, s, err)
	}
	s.remediation.Status.Phase = infrav1.RestartRemediationWaiting
	s.remediation.Status.LastRestartTime = metav1.NewTime(r.Now())
	next := waiting(s.remediation, timeout(s.remediation))
	setProgressing(s.remediation, next)
	// The cloud has done it, whatever was written here meanwhile.
	if err := client.IgnoreNotFound(r.write(ctx, s, client.MergeFrom(s.before))); err != nil {
		return ctrl.Result{}, err
	}
	restarted(ctx, r.Events, s.machine, count(s.remediation))
	return ctrl.Result{RequeueAfter: next.wake}, nil
}

// refused tells why the cloud did not restart, and tries again or gives up.
func (r *Reconciler[M, C]) refused(ctx context.Context, s *state[M, C], cause error) (ctrl.Result, error) {
	says := judge(cause)
	if says.Silent {
		return ctrl.Result{RequeueAfter: says.Retry}, nil
	}
	if driver.IsUnauthorized(cause) {
		r.Accounts.Refused(ctx, s.infra, cause)
	}
	if says.Terminal {
		return r.handBack(ctx, s, back(says.Reason, cause.Error()))
	}
	setProgressing(s.remediation, held(says.Reason, count(s.remediation)+": "+cause.Error()+says.Advice))
	result, err := r.save(ctx, s)
	left := since(s.facts(r.Now())).Add(timeout(s.remediation)).Sub(r.Now())
	return results.Earliest(result, ctrl.Result{RequeueAfter: max(min(says.Retry, left), again)}), err
}

// handBack asks the owner of the Machine to replace it. The Machine is told first: a process that dies in between
// does so again, which changes nothing.
func (r *Reconciler[M, C]) handBack(ctx context.Context, s *state[M, C], because step) (ctrl.Result, error) {
	before := s.machine.DeepCopy()
	if !meta.IsStatusConditionFalse(before.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
		meta.SetStatusCondition(&s.machine.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, ObservedGeneration: before.Generation,
			Message: fmt.Sprintf("RestartRemediation %s handed the Machine back: %s", s.remediation.Name, because.message),
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
	handedBack(ctx, r.Events, s.machine, because)
	return ctrl.Result{}, nil
}

// save stores what changed, unless somebody else has changed the remediation since it was read.
func (r *Reconciler[M, C]) save(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	return results.RequeueOnConflict(r.write(ctx, s, locked(s)))
}

// locked is a patch that fails when somebody else has changed the remediation since it was read.
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
