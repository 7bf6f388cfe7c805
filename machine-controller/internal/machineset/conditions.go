// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/annotation"
)

// Types and reasons are upstream's.

// setClusterMissing reports a MachineSet that cannot be reconciled for want of its Cluster.
func setClusterMissing(set *clusterv1.MachineSet) {
	conditions.Set(set, metav1.Condition{
		Type:    clusterv1.MachineSetScalingUpCondition,
		Status:  metav1.ConditionUnknown,
		Reason:  clusterv1.MachineSetScalingUpInternalErrorReason,
		Message: fmt.Sprintf("Cluster %q does not exist: create it, or delete this MachineSet", set.Spec.ClusterName),
	})
}

func setScalingUp(s *state) {
	desired, current := desiredReplicas(s.set), len(s.machines)+s.created
	condition := metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingUpReason}
	if current < desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetScalingUpReason
		condition.Message = fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
		if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
			condition.Message += fmt.Sprintf(" is blocked by the annotation %s", clusterv1.DisableMachineCreateAnnotation)
		}
	}
	if s.blocked != nil {
		separator := ""
		if condition.Message != "" {
			separator = " is blocked because: "
		}
		condition.Message += separator + s.blocked.Error()
	}
	conditions.Set(s.set, condition)
}

// slowDeletionAfter is when a Machine's deletion is remarkable enough to be told by its owner.
const slowDeletionAfter = 15 * time.Minute

func setScalingDown(s *state, now time.Time) {
	desired, current := desiredReplicas(s.set), len(s.machines)
	condition := metav1.Condition{Type: clusterv1.MachineSetScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingDownReason}
	if current > desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetScalingDownReason
		condition.Message = fmt.Sprintf("Scaling down from %d to %d replicas", current, desired)
		if s.scaleDownBlocked != "" {
			condition.Message += " is blocked because: " + s.scaleDownBlocked
		}
	}
	if stale := slowDeletions(s.machines, now); stale > 0 {
		if condition.Message != "" {
			condition.Message += "; "
		}
		condition.Message += fmt.Sprintf("%d Machines have been deleting for more than 15m", stale)
	}
	conditions.Set(s.set, condition)
}

func slowDeletions(machines []*clusterv1.Machine, now time.Time) int {
	stale := 0
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && now.Sub(m.DeletionTimestamp.Time) > slowDeletionAfter {
			stale++
		}
	}
	return stale
}

// setRemediating reports whether an unhealthy Machine is being replaced.
func setRemediating(s *state) {
	condition := metav1.Condition{Type: clusterv1.MachineSetRemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotRemediatingReason}
	for _, m := range s.machines {
		if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetRemediatingReason
		}
	}
	conditions.Set(s.set, condition)
}

func setDeleting(s *state) {
	condition := metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason}
	if !s.set.DeletionTimestamp.IsZero() {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetDeletingReason
		condition.Message = fmt.Sprintf("Deleting %d Machines", len(s.machines))
		if s.blocked != nil {
			condition.Message += ": " + s.blocked.Error()
		}
	}
	conditions.Set(s.set, condition)
}

// desiredReplicas is none for a MachineSet that is being deleted.
func desiredReplicas(set *clusterv1.MachineSet) int {
	if !set.DeletionTimestamp.IsZero() || set.Spec.Replicas == nil {
		return 0
	}
	return int(*set.Spec.Replicas)
}
