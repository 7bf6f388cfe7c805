// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/runtime/quantity"
)

// setProgressing sets the condition Progressing.
func setProgressing(s *state, now time.Time) {
	condition := metav1.Condition{Type: droverpolicyv1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.CompleteReason}
	if inProgress(s) {
		condition.Reason = droverpolicyv1.ProgressingReason
		if s.untilOverdue(now) < 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, droverpolicyv1.ProgressDeadlineExceededReason
			condition.Message = fmt.Sprintf("No progress for %s: %s", s.deadline, waitMessage(s))
		}
	}
	conditions.Set(s.deployment, condition)
}

// untilOverdue is how long until the lack of progress is reported, if it lasts: negative once it is, and 0 where no progress
// is expected.
func (s *state) untilOverdue(now time.Time) time.Duration {
	paused := s.deployment.Spec.Paused
	if s.deadline == 0 || !inProgress(s) || (paused != nil && *paused) {
		return 0
	}
	if left := s.deadline - now.Sub(lastProgress(s)); left > 0 {
		return left
	}
	return -1
}

// inProgress is true while Machines of older templates are left, some are missing, or some have not joined yet. A Machine
// that has joined and becomes unhealthy later does not count.
func inProgress(s *state) bool {
	md := s.deployment
	if !md.DeletionTimestamp.IsZero() {
		return false
	}
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() && !m.Status.NodeRef.IsDefined() {
			return true
		}
	}
	return superseded(s) > 0 || int32(len(s.machines)) < desiredReplicas(md)
}

// lastProgress is when there was progress last: a MachineSet or a Machine was created, a Machine became available or was
// deleted, a rollout or a change of size began. All of it is read from objects, so a new leader gets the same result.
func lastProgress(s *state) time.Time {
	last := s.deployment.CreationTimestamp.Time
	seen := func(at time.Time) {
		if at.After(last) {
			last = at
		}
	}
	for _, kind := range []string{clusterv1.MachineDeploymentRollingOutCondition, clusterv1.MachineDeploymentScalingUpCondition} {
		if conditions.IsTrue(s.deployment, kind) {
			seen(conditions.GetLastTransitionTime(s.deployment, kind).Time)
		}
	}
	for _, set := range s.sets {
		seen(set.CreationTimestamp.Time)
	}
	for _, m := range s.machines {
		seen(m.CreationTimestamp.Time)
		if available := conditions.Get(m, clusterv1.MachineAvailableCondition); available != nil && available.Status == metav1.ConditionTrue {
			seen(available.LastTransitionTime.Time)
		}
		if !m.DeletionTimestamp.IsZero() {
			seen(m.DeletionTimestamp.Time)
		}
	}
	return last
}

// waitMessage describes what the rollout waits for.
func waitMessage(s *state) string {
	if blocked := blockedRollout(s); blocked != "" {
		return blocked
	}
	if wait := s.decision.Wait; wait.Message != "" && wait.On != rollout.WaitingForCache {
		return joined(wait.Message, refusedBesides(s))
	}
	if why := conditions.GetMessage(s.deployment, clusterv1.MachineDeploymentScalingUpCondition); why != "" {
		return why
	}
	joining := 0
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() && !m.Status.NodeRef.IsDefined() {
			joining++
		}
	}
	return fmt.Sprintf("%s %s no Node yet", quantity.Of(joining, "Machine"), quantity.Verb(joining, "has", "have"))
}
