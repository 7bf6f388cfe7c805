// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/infra-providers/internal/machinestatus"
)

// ProgressingCondition is true while a restart is under way, and false while nothing is done or can be done.
const ProgressingCondition = infrav1.ProgressingCondition

// Reasons of the Progressing condition, beside those of package errorreason for a cloud that refuses: what may pass is
// retried until the timeout of the restart, and the rest is handed back.
const (
	// RestartingReason: the restart is requested from the cloud.
	RestartingReason = infrav1.RestartingReason
	// WaitingForHealthReason: the cloud accepted the restart, and the Machine has until the timeout to become healthy.
	WaitingForHealthReason = infrav1.WaitingForHealthReason
	// MachineNotUnhealthyReason: no MachineHealthCheck reports the Machine as unhealthy, so it is not restarted.
	MachineNotUnhealthyReason = infrav1.MachineNotUnhealthyReason
	// MachineDeletingReason: the Machine, its infrastructure or its Cluster is being deleted.
	MachineDeletingReason = infrav1.MachineDeletingReason
	// ClusterUnreachableReason: the workload cluster does not answer, so nothing is done until it does.
	ClusterUnreachableReason = infrav1.ClusterUnreachableReason
	// ClusterNotClaimedReason: another management cluster acts on the workload cluster, or this one has not claimed it yet.
	ClusterNotClaimedReason = infrav1.ClusterNotClaimedReason
	// ForeignMachineReason: the Machine or its infrastructure is labelled for another provider's watch filter.
	ForeignMachineReason = infrav1.ForeignMachineReason
	// RetriesSpentReason: as many restarts as allowed did not help. Handed back.
	RetriesSpentReason = infrav1.RetriesSpentReason
	// RestartNotSupportedReason: the cloud has no restart. Handed back.
	RestartNotSupportedReason = infrav1.RestartNotSupportedReason
	// InstanceMissingReason: there is no instance. Handed back.
	InstanceMissingReason = machinestatus.InstanceMissingReason
	// InstanceStoppedReason: the instance was stopped. Handed back.
	InstanceStoppedReason = machinestatus.InstanceStoppedReason
	// InstancePendingReason: the instance starts, and is restarted once it runs.
	InstancePendingReason = machinestatus.InstancePendingReason
)

// problemOf is what a refusal of the cloud means for a restart. The pause before the next call is long enough for a
// restart whose answer was lost to become visible.
func problemOf(err error) errorreason.Problem {
	if off, ok := errors.AsType[*driver.NotRunningError](err); ok {
		if off.State == driver.Pending {
			return errorreason.Problem{Reason: InstancePendingReason, Retry: 10 * time.Second}
		}
		return errorreason.Problem{Reason: InstanceStoppedReason, Terminal: true}
	}
	if driver.IsNotFound(err) {
		return errorreason.Problem{Reason: InstanceMissingReason, Terminal: true}
	}
	problem := errorreason.Classify(err)
	if problem.Retry == 0 && !problem.Terminal {
		problem.Advice, problem.Retry = "; retried", 15*time.Second
	}
	return problem
}

func setProgressing(remediation *infrav1.RestartRemediation, problem step) {
	set(remediation, metav1.Condition{Type: ProgressingCondition, Status: problem.status, Reason: problem.reason, Message: errorreason.Truncate(problem.message)})
}

func set(remediation *infrav1.RestartRemediation, condition metav1.Condition) {
	condition.ObservedGeneration = remediation.Generation
	meta.SetStatusCondition(&remediation.Status.Conditions, condition)
}
