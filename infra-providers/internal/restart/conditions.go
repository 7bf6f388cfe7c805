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
)

// problemOf is what a refusal of the cloud means for a restart. The pause before the next call is long enough for a
// restart whose answer was lost to become visible.
func problemOf(err error) errorreason.Problem {
	if off, ok := errors.AsType[*driver.NotRunningError](err); ok {
		if off.State == driver.Pending {
			return errorreason.Problem{Reason: infrav1.InstancePendingReason, Retry: 10 * time.Second}
		}
		return errorreason.Problem{Reason: infrav1.InstanceStoppedReason, Terminal: true}
	}
	if driver.IsNotFound(err) {
		return errorreason.Problem{Reason: infrav1.InstanceMissingReason, Terminal: true}
	}
	problem := errorreason.Classify(err)
	if problem.Retry == 0 && !problem.Terminal {
		problem.Advice, problem.Retry = "; retried", 15*time.Second
	}
	return problem
}

func setProgressing(remediation *infrav1.RestartRemediation, problem step) {
	set(remediation, metav1.Condition{Type: infrav1.ProgressingCondition, Status: problem.status, Reason: problem.reason, Message: errorreason.Truncate(problem.message)})
}

func set(remediation *infrav1.RestartRemediation, condition metav1.Condition) {
	condition.ObservedGeneration = remediation.Generation
	meta.SetStatusCondition(&remediation.Status.Conditions, condition)
}
