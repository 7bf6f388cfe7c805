// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inframachine"
)

// ProgressingCondition is true while a restart is under way, and false while nothing is done or can be done.
const ProgressingCondition = "Progressing"

// Reasons of the Progressing condition. Those of a cloud that refuses are the ones of infrastructure machines.
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
	// RetriesSpentReason: as many restarts as allowed did not help. Handed back.
	RetriesSpentReason = "RetriesSpent"
	// RestartNotSupportedReason: the cloud has no restart. Handed back.
	RestartNotSupportedReason = "RestartNotSupported"
	// InstanceMissingReason: there is no instance. Handed back.
	InstanceMissingReason = inframachine.InstanceMissingReason
	// InstanceStoppedReason: somebody stopped the instance. Handed back.
	InstanceStoppedReason = inframachine.InstanceStoppedReason
	// InstanceNotOwnedReason: the instance belongs to something else. Handed back.
	InstanceNotOwnedReason = inframachine.InstanceNotOwnedReason
	// InvalidConfigurationReason: the cloud can never do what it is asked. Handed back.
	InvalidConfigurationReason = inframachine.InvalidConfigurationReason
	// InstancePendingReason: the instance starts, and is restarted once it runs.
	InstancePendingReason = inframachine.InstancePendingReason
	// UnauthorizedReason: the cloud refused the credentials. Retried while the restart has time.
	UnauthorizedReason = inframachine.UnauthorizedReason
	// RateLimitedReason: the account asks the cloud too often. Retried while the restart has time.
	RateLimitedReason = inframachine.RateLimitedReason
	// CloudErrorReason: the cloud failed in a way that may pass. Retried while the restart has time.
	CloudErrorReason = inframachine.CloudErrorReason
)

// verdict is what a refusal of the cloud means.
type verdict struct {
	reason string
	// advice completes the message with a way out.
	advice string
	// retry is the pause before the cloud is asked again. It is long enough for a restart whose answer was lost to
	// be seen under way.
	retry time.Duration
	// final refusals are not retried.
	final bool
}

// judge turns an error into a verdict: one line per kind.
func judge(err error) verdict {
	stopped, isStopped := errors.AsType[*driver.NotRunningError](err)
	switch {
	case driver.IsNotFound(err):
		return verdict{reason: InstanceMissingReason, final: true}
	case driver.IsNotOwned(err):
		return verdict{reason: InstanceNotOwnedReason, final: true}
	case driver.IsInvalidConfiguration(err):
		return verdict{reason: InvalidConfigurationReason, final: true}
	case isStopped && stopped.State == driver.Pending:
		return verdict{reason: InstancePendingReason, retry: 10 * time.Second}
	case isStopped:
		return verdict{reason: InstanceStoppedReason, final: true}
	case driver.IsUnauthorized(err):
		return verdict{reason: UnauthorizedReason, advice: "; check the credentials and what they permit", retry: time.Minute}
	case driver.IsRateLimited(err):
		return verdict{reason: RateLimitedReason, retry: max(driver.RetryAfter(err), 5*time.Second)}
	default:
		return verdict{reason: CloudErrorReason, advice: "; asked again", retry: 15 * time.Second}
	}
}

func setProgressing(remediation *infrav1.RestartRemediation, says step) {
	set(remediation, metav1.Condition{Type: ProgressingCondition, Status: says.status, Reason: says.reason, Message: truncate(says.message)})
}

// setPaused tells whether anything pauses the remediation.
func setPaused(remediation *infrav1.RestartRemediation, by string) (paused bool) {
	if by == "" {
		set(remediation, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason})
		return false
	}
	set(remediation, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason, Message: by})
	return true
}

func set(remediation *infrav1.RestartRemediation, condition metav1.Condition) {
	condition.ObservedGeneration = remediation.Generation
	meta.SetStatusCondition(&remediation.Status.Conditions, condition)
}

// truncate keeps a message within what the API server takes.
func truncate(message string) string {
	const most = 4096
	return message[:min(len(message), most)]
}
