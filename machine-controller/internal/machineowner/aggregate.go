// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// aggregateReady merges the Ready conditions into a condition of the target type.
func aggregateReady(machines []*clusterv1.Machine, target string) metav1.Condition {
	return mergeConditions(machines, clusterv1.MachineReadyCondition, target,
		conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason))
}

// aggregateUpToDate merges the UpToDate conditions into a condition of the target type. Machines without one do not count.
func aggregateUpToDate(machines []*clusterv1.Machine, target string) metav1.Condition {
	compared := make([]*clusterv1.Machine, 0, len(machines))
	for _, m := range machines {
		if conditions.Has(m, clusterv1.MachineUpToDateCondition) {
			compared = append(compared, m)
		}
	}
	return mergeConditions(compared, clusterv1.MachineUpToDateCondition, target,
		conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotUpToDateReason, clusterv1.UpToDateUnknownReason, clusterv1.UpToDateReason))
}

type reasonFunc = func(issues, unknown, info []conditions.ConditionWithOwnerInfo) string

// mergeConditions merges as upstream does: issues first, three messages at most, and the names of three Machines for each.
func mergeConditions(machines []*clusterv1.Machine, source, target string, reason reasonFunc) metav1.Condition {
	if len(machines) == 0 {
		return metav1.Condition{Type: target, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason}
	}
	merged, err := conditions.NewAggregateCondition(distinct(machines, source), source, conditions.TargetConditionType(target),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(reason))})
	if err != nil {
		return metav1.Condition{Type: target, Status: metav1.ConditionUnknown, Reason: clusterv1.InternalErrorReason, Message: err.Error()}
	}
	return *merged
}

// distinct are the Machines on which the result depends. All whose condition is true without a message count like one
// of them, and these are nearly all of many Machines: the merge sorts its input.
func distinct(machines []*clusterv1.Machine, source string) []*clusterv1.Machine {
	var chosen []*clusterv1.Machine
	found := false
	for _, m := range machines {
		condition := conditions.Get(m, source)
		unremarkable := condition != nil && condition.Status == metav1.ConditionTrue && condition.Message == ""
		if unremarkable && found {
			continue
		}
		found = found || unremarkable
		chosen = append(chosen, m)
	}
	return chosen
}
