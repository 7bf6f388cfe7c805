// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// forced reports whether the Pod must be deleted now to have ended by the deadline, and with which grace period.
// A Pod whose deletion is under way is deleted once more only if its grace period reaches past the deadline.
func (v Input) forced(pod *corev1.Pod) (grace int64, due bool) {
	if v.ForceDeadline == nil {
		return 0, false
	}
	left := max(v.ForceDeadline.Sub(v.Now), minGrace)
	if pod.DeletionTimestamp != nil {
		// Whole seconds, as the API server keeps them.
		end := v.Now.Add(left).Truncate(time.Second).Add(time.Second)
		return int64(left / time.Second), pod.DeletionTimestamp.Time.After(end)
	}
	own := v.gracePeriod(pod)
	return int64(min(left, own) / time.Second), !v.Now.Before(v.ForceDeadline.Add(-own))
}

// ForceDue is when forced becomes true for a Pod that is not yet being deleted.
func (v Input) ForceDue(pod *corev1.Pod) (time.Time, bool) {
	if v.ForceDeadline == nil || pod.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	return v.ForceDeadline.Add(-v.gracePeriod(pod)), true
}

// gracePeriod is never zero: that would remove the Pod from the API while its containers still run.
func (v Input) gracePeriod(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if v.Unreachable {
		return minGrace
	}
	return max(time.Duration(seconds)*time.Second, minGrace)
}

func (v Input) pastDeadline() bool {
	return v.ForceDeadline != nil && v.Now.After(*v.ForceDeadline)
}

const minGrace = time.Second
