// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// setStatus derives counters, conditions and phase from what was observed.
func (r *Reconciler) setStatus(s *subject) {
	c := s.cluster
	c.Status.ObservedGeneration = c.Generation
	c.Status.Workers = s.workers.status()
	if len(s.workers.plane) > 0 {
		c.Status.ControlPlane = planeStatus(s.workers.plane)
	}
	setPaused(c, false)
	conditions.Set(c, infrastructureReady(s))
	conditions.Set(c, controlPlaneInitialized(s))
	conditions.Set(c, controlPlaneAvailable(s))
	conditions.Set(c, connectionProbe(s))
	conditions.Set(c, workersAvailable(s))
	for _, sum := range sums {
		conditions.Set(c, sum.of(s.workers))
	}
	conditions.Set(c, deleting(s))
	conditions.Set(c, available(c))
	c.Status.SetTypedPhase(phaseOf(c))
}

func planeStatus(machines []*clusterv1.Machine) *clusterv1.ClusterControlPlaneStatus {
	var desired, ready, available, upToDate int32
	for _, m := range machines {
		desired++
		ready += one(m, clusterv1.MachineReadyCondition)
		available += one(m, clusterv1.MachineAvailableCondition)
		upToDate += one(m, clusterv1.MachineUpToDateCondition)
	}
	replicas := desired
	return &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: &desired, Replicas: &replicas, ReadyReplicas: &ready, AvailableReplicas: &available, UpToDateReplicas: &upToDate,
	}
}

// phaseOf names the stage of its life that a Cluster is in.
func phaseOf(c *clusterv1.Cluster) clusterv1.ClusterPhase {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return clusterv1.ClusterPhaseDeleting
	case c.Status.Initialization.InfrastructureProvisioned != nil && c.Spec.ControlPlaneEndpoint.Host != "":
		return clusterv1.ClusterPhaseProvisioned
	case c.Spec.InfrastructureRef.IsDefined() || c.Spec.ControlPlaneRef.IsDefined():
		return clusterv1.ClusterPhaseProvisioning
	}
	return clusterv1.ClusterPhasePending
}

// available is true once the workload cluster can be used and everything that belongs to
// the Cluster is well.
func available(c *clusterv1.Cluster) metav1.Condition {
	types := conditions.ForConditionTypes{
		clusterv1.ClusterDeletingCondition,
		clusterv1.ClusterRemoteConnectionProbeCondition,
		clusterv1.ClusterInfrastructureReadyCondition,
		clusterv1.ClusterControlPlaneAvailableCondition,
		clusterv1.ClusterWorkersAvailableCondition,
	}
	negative := conditions.NegativePolarityConditionTypes{clusterv1.ClusterDeletingCondition}
	for _, gate := range c.Spec.AvailabilityGates {
		types = append(types, gate.ConditionType)
		if gate.Polarity == clusterv1.NegativePolarityCondition {
			negative = append(negative, gate.ConditionType)
		}
	}
	condition, err := conditions.NewSummaryCondition(c, clusterv1.ClusterAvailableCondition, types, negative,
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
			conditions.GetPriorityFunc(conditions.GetDefaultMergePriorityFunc(negative...)),
			conditions.ComputeReasonFunc(conditions.GetDefaultComputeMergeReasonFunc(
				clusterv1.ClusterNotAvailableReason, clusterv1.ClusterAvailableUnknownReason, clusterv1.ClusterAvailableReason,
			)),
		)})
	if err != nil {
		return metav1.Condition{
			Type: clusterv1.ClusterAvailableCondition, Status: metav1.ConditionUnknown,
			Reason: clusterv1.ClusterAvailableInternalErrorReason, Message: err.Error(),
		}
	}
	return *condition
}
