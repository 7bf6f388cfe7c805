// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/managementclaim"
)

// decisionInput is all that the next step depends on.
type decisionInput struct {
	remediation *infrav1.RestartRemediation
	// machine and cluster are nil when they do not exist.
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	// deleting is true while the infrastructure machine is being deleted.
	deleting bool
	// instance is false when there is nothing that could have an instance.
	instance bool
	// supported is false when the cloud is known to have no restart.
	supported bool
	now       time.Time
}

// action is what to do next.
type action int

const (
	// wait does nothing until a watch event, or until step.requeueAfter.
	wait action = iota
	// begin stores the intent to restart once more, and then sends it to the cloud.
	begin
	// restartInstance requests the restart whose intent is stored.
	restartInstance
	// handBack gives the Machine to its owner.
	handBack
)

// step is the next action, with its condition.
type step struct {
	action          action
	status          metav1.ConditionStatus
	reason, message string
	// requeueAfter is when to reconcile again without a watch event; zero for never.
	requeueAfter time.Duration
}

// decide returns the step of the first rule that applies.
func decide(input decisionInput) step {
	for _, rule := range []func(decisionInput) (step, bool){
		handedBack,       // the Machine was handed back to its owner
		deleting,         // the Machine, its infrastructure or its Cluster is being deleted
		notUnhealthy,     // no MachineHealthCheck reports the Machine as unhealthy
		notClaimed,       // another management cluster acts on the workload cluster
		unreachable,      // the workload cluster does not answer, so the effect of a restart could not be observed
		instanceMissing,  // there is no instance to restart
		notSupported,     // the cloud has no restart
		inProgress,       // a restart was begun and its timeout is not over
		retriesExhausted, // as many restarts as allowed did not help
	} {
		if next, applies := rule(input); applies {
			return next
		}
	}
	return step{action: begin}
}

func handedBack(input decisionInput) (step, bool) {
	known := meta.FindStatusCondition(input.remediation.Status.Conditions, infrav1.ProgressingCondition)
	if input.remediation.Status.Phase != infrav1.RestartRemediationHandedBack || known == nil {
		return step{}, false
	}
	return step{status: known.Status, reason: known.Reason, message: known.Message}, true
}

func deleting(input decisionInput) (step, bool) {
	gone := input.machine == nil || !input.machine.DeletionTimestamp.IsZero() || input.cluster == nil || !input.cluster.DeletionTimestamp.IsZero()
	return idleStep(infrav1.MachineDeletingReason, "the Machine, or what it belongs to, is being deleted or gone"), gone || input.deleting
}

func notUnhealthy(input decisionInput) (step, bool) {
	unhealthy := meta.IsStatusConditionFalse(input.machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	return idleStep(infrav1.MachineNotUnhealthyReason, "no MachineHealthCheck reports the Machine as unhealthy"), !unhealthy
}

func notClaimed(input decisionInput) (step, bool) {
	return idleStep(infrav1.ClusterNotClaimedReason, managementclaim.Message), managementclaim.Forbids(input.cluster)
}

// unreachable is true while a workload cluster that was initialized does not answer: its Nodes are not observed then.
func unreachable(input decisionInput) (step, bool) {
	applies := ptr.Deref(input.cluster.Status.Initialization.ControlPlaneInitialized, false) &&
		meta.IsStatusConditionFalse(input.cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	return idleStep(infrav1.ClusterUnreachableReason, "the workload cluster does not answer, so that the health of the Machine is not known"), applies
}

func instanceMissing(input decisionInput) (step, bool) {
	return handBackStep(infrav1.InstanceMissingReason, "there is no instance to restart"), !input.instance
}

func notSupported(input decisionInput) (step, bool) {
	return handBackStep(infrav1.RestartNotSupportedReason, "this cloud does not restart instances"), !input.supported
}

// inProgress is true until the timeout of the last restart: for the cloud to accept it, and then for the Machine to become
// healthy.
func inProgress(input decisionInput) (step, bool) {
	left := since(input).Add(timeout(input.remediation)).Sub(input.now)
	switch {
	case input.remediation.Status.Phase == "" || left <= 0:
		return step{}, false
	case input.remediation.Status.Phase == infrav1.RestartRemediationRestarting:
		return step{action: restartInstance}, true
	default:
		return waitForHealthStep(input.remediation, left), true
	}
}

func retriesExhausted(input decisionInput) (step, bool) {
	message := fmt.Sprintf("the Machine did not become healthy within %s of any of %d restarts", timeout(input.remediation), limit(input.remediation))
	if input.remediation.Status.Phase == infrav1.RestartRemediationRestarting {
		message = fmt.Sprintf("the cloud did not accept the last of %d restarts within %s", limit(input.remediation), timeout(input.remediation))
	}
	return handBackStep(infrav1.RetriesSpentReason, message), attempts(input.remediation) >= limit(input.remediation)
}

// since is when the timeout of the last restart began: with the restart, or when the connection to the workload cluster
// came back later, because the Machine was not observed before.
func since(input decisionInput) time.Time {
	began := input.remediation.Status.LastRestartTime.Time
	probe := meta.FindStatusCondition(input.cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if probe != nil && probe.LastTransitionTime.After(began) {
		return probe.LastTransitionTime.Time
	}
	return began
}

func idleStep(reason, message string) step {
	return step{status: metav1.ConditionFalse, reason: reason, message: message}
}

func handBackStep(reason, message string) step {
	return step{action: handBack, status: metav1.ConditionFalse, reason: reason, message: message}
}

func waitForHealthStep(remediation *infrav1.RestartRemediation, left time.Duration) step {
	return step{
		status: metav1.ConditionTrue, reason: infrav1.WaitingForHealthReason, requeueAfter: left,
		message: count(remediation) + ": the cloud accepted it, waiting for the Machine to become healthy",
	}
}

// count is the number of this restart, of how many.
func count(remediation *infrav1.RestartRemediation) string {
	return fmt.Sprintf("restart %d of %d", attempts(remediation), limit(remediation))
}

func attempts(remediation *infrav1.RestartRemediation) int32 {
	return ptr.Deref(remediation.Status.Attempts, 0)
}

func limit(remediation *infrav1.RestartRemediation) int32 {
	return ptr.Deref(remediation.Spec.RetryLimit, 1)
}

func timeout(remediation *infrav1.RestartRemediation) time.Duration {
	return time.Duration(ptr.Deref(remediation.Spec.TimeoutSeconds, 300)) * time.Second
}
