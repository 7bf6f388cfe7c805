// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// again is the pause after a write that met another.
const again = time.Second

// begin stores the intent of one more restart, and only then asks the cloud: a process that dies in between finds
// it, and repeats the one call at most.
func (r *Reconciler[M, C]) begin(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	status := &job.remediation.Status
	status.Phase = infrav1.RestartRemediationRestarting
	status.Attempts = ptr.To(attempts(job.remediation) + 1)
	status.LastRestartTime = metav1.NewTime(r.Now())
	setProgressing(job.remediation, step{status: metav1.ConditionTrue, reason: RestartingReason, message: count(job.remediation) + ": asking the cloud"})
	if err := r.write(ctx, job, locked(job)); err != nil {
		return conflicted(err) // somebody has written meanwhile, or the Machine is well and the remediation gone
	}
	return r.ask(ctx, job)
}

// ask asks the cloud for the restart and stores its answer.
func (r *Reconciler[M, C]) ask(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	err := job.cloudErr
	if err == nil {
		err = job.cloud.Restart(ctx, job.identity())
	}
	if err != nil {
		return r.refused(ctx, job, err)
	}
	job.remediation.Status.Phase = infrav1.RestartRemediationWaiting
	job.remediation.Status.LastRestartTime = metav1.NewTime(r.Now())
	next := waiting(job.remediation, timeout(job.remediation))
	setProgressing(job.remediation, next)
	// The cloud has done it, whatever was written here meanwhile.
	if err := client.IgnoreNotFound(r.write(ctx, job, client.MergeFrom(job.before))); err != nil {
		return ctrl.Result{}, err
	}
	restarted(ctx, r.Events, job.machine, count(job.remediation))
	return ctrl.Result{RequeueAfter: next.wake}, nil
}

// refused tells why the cloud did not restart, and tries again or gives up.
func (r *Reconciler[M, C]) refused(ctx context.Context, job *job[M, C], cause error) (ctrl.Result, error) {
	says := judge(cause)
	if driver.IsUnauthorized(cause) {
		r.Accounts.Refused(job.infra)
	}
	if says.Terminal {
		return r.handBack(ctx, job, back(says.Reason, cause.Error()))
	}
	setProgressing(job.remediation, held(says.Reason, count(job.remediation)+": "+cause.Error()+says.Advice))
	result, err := r.save(ctx, job)
	left := since(job.facts(r.Now())).Add(timeout(job.remediation)).Sub(r.Now())
	return sooner(result, max(min(says.Retry, left), again)), err
}

// handBack asks the owner of the Machine to replace it. The Machine is told first: a process that dies in between
// does so again, which changes nothing.
func (r *Reconciler[M, C]) handBack(ctx context.Context, job *job[M, C], because step) (ctrl.Result, error) {
	before := job.machine.DeepCopy()
	if !meta.IsStatusConditionFalse(before.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
		meta.SetStatusCondition(&job.machine.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, ObservedGeneration: before.Generation,
			Message: fmt.Sprintf("RestartRemediation %s handed the Machine back: %s", job.remediation.Name, because.message),
		})
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, job.machine, patch); err != nil {
			return conflicted(fmt.Errorf("handing the Machine back: %w", err))
		}
	}
	job.remediation.Status.Phase = infrav1.RestartRemediationHandedBack
	setProgressing(job.remediation, step{status: because.status, reason: because.reason, message: "handed back to the owner of the Machine: " + because.message})
	if err := r.write(ctx, job, locked(job)); err != nil {
		return conflicted(err)
	}
	handedBack(ctx, r.Events, job.machine, because)
	return ctrl.Result{}, nil
}

// save stores what changed, unless somebody else has changed the remediation since it was read.
func (r *Reconciler[M, C]) save(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	return conflicted(r.write(ctx, job, locked(job)))
}

// locked is a patch that fails when somebody else has changed the remediation since it was read.
func locked[M driver.Machine, C any](job *job[M, C]) client.Patch {
	return client.MergeFromWithOptions(job.before, client.MergeFromWithOptimisticLock{})
}

func (r *Reconciler[M, C]) write(ctx context.Context, job *job[M, C], patch client.Patch) error {
	if equality.Semantic.DeepEqual(job.before.Status, job.remediation.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, job.remediation, patch); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	job.before = job.remediation.DeepCopy()
	return nil
}

// conflicted makes a conflict another look, and lets go of what is gone.
func conflicted(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// sooner makes sure that a result comes back after a time, if that is not zero.
func sooner(result ctrl.Result, wake time.Duration) ctrl.Result {
	if wake > 0 && (result.RequeueAfter == 0 || wake < result.RequeueAfter) {
		result.RequeueAfter = wake
	}
	return result
}
