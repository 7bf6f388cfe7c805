// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/predicates"
)

// setStatus derives counters, conditions and phase from what was observed.
func (r *Reconciler) setStatus(s *state) {
	c := s.cluster
	c.Status.ObservedGeneration = c.Generation
	c.Status.Workers = s.workers.status()
	c.Status.ControlPlane = controlPlaneStatus(s)
	conditions.Set(c, predicates.PausedCondition(c, c, "Cluster"))
	if message := annotation.Validate(c, assignRule); message != "" {
		r.Events.Eventf(c, nil, corev1.EventTypeWarning, "InvalidAnnotation", "ReadAnnotation", "%s", message)
	}
	conditions.Set(c, infrastructureReady(s))
	conditions.Set(c, controlPlaneInitialized(s))
	conditions.Set(c, controlPlaneAvailable(s))
	conditions.Set(c, connectionProbe(s))
	setClaimed(s)
	conditions.Set(c, workersAvailable(s))
	for _, sum := range sums {
		conditions.Set(c, sum.of(s))
	}
	conditions.Set(c, deleting(s))
	conditions.Set(c, available(c))
	c.Status.SetTypedPhase(phaseOf(c))
}

var assignRule = annotation.Rule{
	Key:        annotation.AssignProviderIDs,
	Understood: func(value string, _ map[string]string) bool { return value == "true" || value == "false" },
	Allowed:    `"true" or "false"`, Otherwise: "Machines assign no providerID to Nodes without one",
}

// aggregated are the conditions that can change with every Machine.
var aggregated = []string{
	clusterv1.ClusterControlPlaneMachinesReadyCondition, clusterv1.ClusterControlPlaneMachinesUpToDateCondition,
	clusterv1.ClusterWorkersAvailableCondition, clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition,
	clusterv1.ClusterRollingOutCondition, clusterv1.ClusterScalingUpCondition, clusterv1.ClusterScalingDownCondition, clusterv1.ClusterRemediatingCondition,
}

// urgent reports whether the change of the status is more than a change of the workers' counters.
func urgent(before, after *clusterv1.Cluster) bool {
	var others []string
	for _, condition := range after.Status.Conditions {
		if !slices.Contains(aggregated, condition.Type) {
			others = append(others, condition.Type)
		}
	}
	return before.Status.ObservedGeneration != after.Status.ObservedGeneration || before.Status.Phase != after.Status.Phase ||
		!equality.Semantic.DeepEqual(before.Status.Initialization, after.Status.Initialization) ||
		countsOf(before).Complete() != countsOf(after).Complete() || statuswriter.ConditionsChanged(before, after, others...)
}

func countsOf(c *clusterv1.Cluster) statuswriter.Counts {
	w := ptr.Deref(c.Status.Workers, clusterv1.WorkersStatus{})
	return statuswriter.Counts{
		Desired: ptr.Deref(w.DesiredReplicas, 0), Replicas: ptr.Deref(w.Replicas, 0), Ready: ptr.Deref(w.ReadyReplicas, 0),
		Available: ptr.Deref(w.AvailableReplicas, 0), UpToDate: ptr.Deref(w.UpToDateReplicas, 0),
	}
}

// controlPlaneStatus has the counters and the versions that the control plane object reports. Where it reports none, or there is no
// such object, they are those of the Machines of the control plane; nil if there is neither.
func controlPlaneStatus(s *state) *clusterv1.ClusterControlPlaneStatus {
	reported := clusterv1.ClusterControlPlaneStatus{}
	if s.controlPlane != nil {
		reported = s.controlPlane.Replicas()
	}
	versions := reported.Versions
	if reported.Versions = nil; equality.Semantic.DeepEqual(reported, clusterv1.ClusterControlPlaneStatus{}) {
		reported = countMachines(s.workers.controlPlane)
	}
	if versions == nil {
		versions = kubeversion.OfMachines(s.workers.controlPlane)
	}
	reported.Versions = kubeversion.Count(versions, kubeversion.MaxOfCluster)
	if equality.Semantic.DeepEqual(reported, clusterv1.ClusterControlPlaneStatus{}) {
		return nil
	}
	return &reported
}

// countMachines counts the Machines of a control plane: each counts as desired. Without any, no counter is set.
func countMachines(machines []*clusterv1.Machine) clusterv1.ClusterControlPlaneStatus {
	if len(machines) == 0 {
		return clusterv1.ClusterControlPlaneStatus{}
	}
	var desired, ready, available, upToDate int32
	for _, m := range machines {
		desired++
		ready += countIf(m, clusterv1.MachineReadyCondition)
		available += countIf(m, clusterv1.MachineAvailableCondition)
		upToDate += countIf(m, clusterv1.MachineUpToDateCondition)
	}
	replicas := desired
	return clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: &desired, Replicas: &replicas, ReadyReplicas: &ready, AvailableReplicas: &available, UpToDateReplicas: &upToDate,
	}
}

// phaseOf returns the phase of a Cluster.
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
// the Cluster is available.
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
