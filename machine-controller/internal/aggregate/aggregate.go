// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package aggregate sums up what many Machines say of themselves in one condition of what owns them. How conditions are
// merged is upstream's: trouble goes first, three messages at most, and the names of three Machines for each.
package aggregate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// Ready sums up which Machines are ready, as a condition of a type.
func Ready(machines []*clusterv1.Machine, target string) metav1.Condition {
	return sum(machines, clusterv1.MachineReadyCondition, target,
		conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason))
}

// UpToDate sums up which Machines are as their owner wants them, as a condition of a type. Machines that nobody has
// compared yet do not count.
func UpToDate(machines []*clusterv1.Machine, target string) metav1.Condition {
	compared := make([]*clusterv1.Machine, 0, len(machines))
	for _, m := range machines {
		if conditions.Has(m, clusterv1.MachineUpToDateCondition) {
			compared = append(compared, m)
		}
	}
	return sum(compared, clusterv1.MachineUpToDateCondition, target,
		conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotUpToDateReason, clusterv1.UpToDateUnknownReason, clusterv1.UpToDateReason))
}

type reasonFunc = func(issues, unknown, info []conditions.ConditionWithOwnerInfo) string

func sum(machines []*clusterv1.Machine, source, target string, reason reasonFunc) metav1.Condition {
	if len(machines) == 0 {
		return metav1.Condition{Type: target, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason}
	}
	merged, err := conditions.NewAggregateCondition(telling(machines, source), source, conditions.TargetConditionType(target),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(reason))})
	if err != nil {
		return metav1.Condition{Type: target, Status: metav1.ConditionUnknown, Reason: clusterv1.InternalErrorReason, Message: err.Error()}
	}
	return *merged
}

// telling are the Machines that a sum depends on. All that are well and have nothing to add come to the same as one of
// them, and in a large fleet these are nearly all: merging sorts what it is given.
func telling(machines []*clusterv1.Machine, source string) []*clusterv1.Machine {
	var chosen []*clusterv1.Machine
	well := false
	for _, m := range machines {
		condition := conditions.Get(m, source)
		quiet := condition != nil && condition.Status == metav1.ConditionTrue && condition.Message == ""
		if quiet && well {
			continue
		}
		well = well || quiet
		chosen = append(chosen, m)
	}
	return chosen
}
