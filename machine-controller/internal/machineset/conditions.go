// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// Types and reasons are upstream's.

func setPaused(set *clusterv1.MachineSet, paused bool) {
	condition := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	if paused {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
	}
	conditions.Set(set, condition)
}

// setClusterMissing reports a MachineSet that cannot be reconciled for want of its Cluster.
func setClusterMissing(set *clusterv1.MachineSet) {
	conditions.Set(set, metav1.Condition{
		Type:    clusterv1.MachineSetScalingUpCondition,
		Status:  metav1.ConditionUnknown,
		Reason:  clusterv1.MachineSetScalingUpInternalErrorReason,
		Message: fmt.Sprintf("Cluster %q does not exist: create it, or delete this MachineSet", set.Spec.ClusterName),
	})
}

func setScalingUp(f *family) {
	desired, current := desiredReplicas(f.set), len(f.machines)+f.born
	condition := metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingUpReason}
	if current < desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetScalingUpReason
		condition.Message = fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
		if _, disabled := f.set.Annotations[clusterv1.DisableMachineCreateAnnotation]; disabled {
			condition.Message += fmt.Sprintf(" is blocked by the annotation %s", clusterv1.DisableMachineCreateAnnotation)
		}
	}
	if f.trouble != nil {
		separator := ""
		if condition.Message != "" {
			separator = " is blocked because: "
		}
		condition.Message += separator + f.trouble.Error()
	}
	conditions.Set(f.set, condition)
}

// staleDeletion is when a Machine's deletion is remarkable enough to be told by its owner.
const staleDeletion = 15 * time.Minute

func setScalingDown(f *family, now time.Time) {
	desired, current := desiredReplicas(f.set), len(f.machines)
	condition := metav1.Condition{Type: clusterv1.MachineSetScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingDownReason}
	if current > desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetScalingDownReason
		condition.Message = fmt.Sprintf("Scaling down from %d to %d replicas", current, desired)
	}
	if stale := staleMachines(f.machines, now); stale > 0 {
		if condition.Message != "" {
			condition.Message += "; "
		}
		condition.Message += fmt.Sprintf("%d Machines have been deleting for more than 15m", stale)
	}
	conditions.Set(f.set, condition)
}

func staleMachines(machines []*clusterv1.Machine, now time.Time) int {
	stale := 0
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && now.Sub(m.DeletionTimestamp.Time) > staleDeletion {
			stale++
		}
	}
	return stale
}

// setRemediating reports whether an unhealthy Machine is being replaced.
func setRemediating(f *family) {
	condition := metav1.Condition{Type: clusterv1.MachineSetRemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotRemediatingReason}
	for _, m := range f.machines {
		if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetRemediatingReason
		}
	}
	conditions.Set(f.set, condition)
}

func setDeleting(f *family) {
	condition := metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason}
	if !f.set.DeletionTimestamp.IsZero() {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetDeletingReason
		condition.Message = fmt.Sprintf("Deleting %d Machines", len(f.machines))
	}
	conditions.Set(f.set, condition)
}

// desiredReplicas is none for a MachineSet that is being deleted.
func desiredReplicas(set *clusterv1.MachineSet) int {
	if !set.DeletionTimestamp.IsZero() || set.Spec.Replicas == nil {
		return 0
	}
	return int(*set.Spec.Replicas)
}
