// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/annotation"
)

// Types and reasons are upstream's, but for Blocked. Those that MachineSets and MachineDeployments share are in package machineowner.

func setScalingUp(s *state) {
	desired, current := desiredReplicas(s.set), len(s.machines)+s.created
	condition := metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingUpReason}
	if current < desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineSetScalingUpReason
		condition.Message = fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
		if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
			condition.Reason = droverpolicyv1.BlockedReason
			condition.Message += fmt.Sprintf(" is blocked by the annotation %s", clusterv1.DisableMachineCreateAnnotation)
		}
	}
	if s.blocked != nil {
		if condition.Message != "" {
			condition.Message += " is blocked because: "
		}
		condition.Message += s.blocked.Error()
		if current < desired && !s.passes {
			condition.Reason = droverpolicyv1.BlockedReason
		}
	}
	conditions.Set(s.set, condition)
}

// desiredReplicas is 0 for a MachineSet that is being deleted. One whose size is not known keeps what it has.
func desiredReplicas(set *clusterv1.MachineSet) int {
	if !set.DeletionTimestamp.IsZero() {
		return 0
	}
	return int(ptr.Deref(set.Spec.Replicas, ptr.Deref(set.Status.Replicas, 0)))
}
