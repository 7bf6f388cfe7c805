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
	"drover.io/infra-providers/internal/inframachine"
)

// ProgressingCondition is true while a restart is under way, and false while nothing is done or can be done.
const ProgressingCondition = "Progressing"

// Reasons of the Progressing condition, beside those of package verdict for a cloud that refuses: what may pass is
// retried while the restart has time, and the rest is handed back.
const (
	// RestartingReason: the cloud is being asked.
	RestartingReason = "Restarting"
	// WaitingForHealthReason: the cloud took the restart, and the Machine has its time to become healthy.
	WaitingForHealthReason = "WaitingForHealth"
	// MachineNotUnhealthyReason: nobody says that the Machine is unhealthy, so it is not restarted.
	MachineNotUnhealthyReason = "MachineNotUnhealthy"
	// MachineDeletingReason: the Machine, its infrastructure or its Cluster is being deleted.
	MachineDeletingReason = "MachineDeleting"
	// ClusterUnreachableReason: the workload cluster does not answer, so nothing is done until it does.
	ClusterUnreachableReason = "ClusterUnreachable"
	// ForeignMachineReason: the Machine or its infrastructure is labelled for another provider's watch filter.
	ForeignMachineReason = "ForeignMachine"
	// RetriesSpentReason: as many restarts as allowed did not help. Handed back.
	RetriesSpentReason = "RetriesSpent"
	// RestartNotSupportedReason: the cloud has no restart. Handed back.
	RestartNotSupportedReason = "RestartNotSupported"
	// InstanceMissingReason: there is no instance. Handed back.
	InstanceMissingReason = inframachine.InstanceMissingReason
	// InstanceStoppedReason: somebody stopped the instance. Handed back.
	InstanceStoppedReason = inframachine.InstanceStoppedReason
	// InstancePendingReason: the instance starts, and is restarted once it runs.
	InstancePendingReason = inframachine.InstancePendingReason
)

// judge says what a refusal of the cloud means for a restart. The pause before the cloud is asked again is long
// enough for a restart whose answer was lost to be seen under way.
func judge(err error) errorreason.Problem {
	if off, ok := errors.AsType[*driver.NotRunningError](err); ok {
		if off.State == driver.Pending {
			return errorreason.Problem{Reason: InstancePendingReason, Retry: 10 * time.Second}
		}
		return errorreason.Problem{Reason: InstanceStoppedReason, Terminal: true}
	}
	if driver.IsNotFound(err) {
		return errorreason.Problem{Reason: InstanceMissingReason, Terminal: true}
	}
	says := errorreason.Of(err)
	if says.Retry == 0 && !says.Terminal {
		says.Advice, says.Retry = "; asked again", 15*time.Second
	}
	return says
}

func setProgressing(remediation *infrav1.RestartRemediation, says step) {
	set(remediation, metav1.Condition{Type: ProgressingCondition, Status: says.status, Reason: says.reason, Message: errorreason.Truncate(says.message)})
}

func set(remediation *infrav1.RestartRemediation, condition metav1.Condition) {
	condition.ObservedGeneration = remediation.Generation
	meta.SetStatusCondition(&remediation.Status.Conditions, condition)
}
