// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts the objects in the manager's cache at each scrape, and keeps the counters that several
// controllers add to. Other packages declare what only they measure. It never reads the API server.
package metrics

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/metric"
)

const namespace = "machine_controller_"

// operations are the phases of a Machine and the steps of its deletion.
var operations = metric.Fixed("operation",
	"machine.metadata", "machine.bootstrap", "machine.infrastructure", "machine.node",
	"deletion.hookStep", "deletion.drainStep", "deletion.detachStep", "deletion.instanceStep", "deletion.bootstrapStep", "deletion.nodeStep")

var phases = metric.Fixed("phase", clusterv1.MachinePhasePending, clusterv1.MachinePhaseProvisioning, clusterv1.MachinePhaseProvisioned,
	clusterv1.MachinePhaseRunning, clusterv1.MachinePhaseUpdating, clusterv1.MachinePhaseDeleting, clusterv1.MachinePhaseDeleted, clusterv1.MachinePhaseUnknown)

var (
	failures = metric.NewCounter(metric.Options{
		Name: namespace + "errors_total", Help: "Errors of reconciles, by what was being done.", Stability: metric.Stable,
		Labels: []metric.Label{operations},
	})
	phaseSeconds = metric.NewHistogram(metric.Options{
		Name: namespace + "machine_phase_duration_seconds", Help: "Seconds from a Machine's creation until it reached a phase.", Stability: metric.Stable,
		Labels: []metric.Label{phases}, Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
	})
	transitions = metric.NewCounter(metric.Options{
		Name: namespace + "condition_transitions_total", Help: "Conditions that got another status, or were removed, by a write of this manager.", Stability: metric.Alpha,
		Labels: []metric.Label{kinds, conditionTypes, metric.Statuses},
	})
	freezes = metric.NewCounter(metric.Options{
		Name: namespace + "freezes_total", Help: "Freezes of MachineDeployments and MachineSets that began, by cause.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Fixed("reason", droverpolicyv1.OvershootReason, droverpolicyv1.FrozenByAnnotationReason, droverpolicyv1.FreezeInvalidReason)},
	})
	remediations = metric.NewObjectCounter("cluster", metric.Options{
		Name: namespace + "replacements_total", Help: "Machines deleted because a health check had marked them, by their MachineSet's Cluster.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Named("namespace", "the Cluster's"), metric.Named("cluster", "the Cluster")},
	})
	readySeconds = metric.NewObjectHistogram("name", metric.Options{
		Name: namespace + "machine_deployment_ready_duration_seconds", Stability: metric.Alpha,
		Help:    "Seconds from the creation of a Machine until it was ready for the first time, by MachineDeployment. Machines that got their Node under an earlier process are not counted.",
		Labels:  []metric.Label{metric.Named("namespace", "the MachineDeployment's"), metric.Named("name", "the MachineDeployment"), metric.Named("cluster", "its Cluster")},
		Buckets: []float64{30, 60, 120, 300, 600, 1200, 3600},
	})
)

var kinds = metric.Fixed("kind", "Cluster", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck", "MachinePolicy")

// conditionTypes are those that this manager writes.
var conditionTypes = metric.Fixed("condition",
	clusterv1.AvailableCondition, clusterv1.ReadyCondition, clusterv1.PausedCondition, clusterv1.DeletingCondition,
	clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterWorkersAvailableCondition,
	clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition, clusterv1.ClusterRemoteConnectionProbeCondition,
	clusterv1.ClusterControlPlaneMachinesReadyCondition, clusterv1.ClusterControlPlaneMachinesUpToDateCondition,
	clusterv1.MachinesReadyCondition, clusterv1.MachinesUpToDateCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition, clusterv1.BootstrapConfigReadyCondition, clusterv1.InfrastructureReadyCondition,
	clusterv1.MachineUpToDateCondition, clusterv1.MachineUpdatingCondition, clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, droverpolicyv1.NodeSyncedCondition,
	clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition,
	clusterv1.MachineHealthCheckRemediationAllowedCondition, failureDomainsHealthy,
	droverpolicyv1.FrozenCondition, droverpolicyv1.ProgressingCondition, droverpolicyv1.AnnotationsValidCondition, droverpolicyv1.ManagementClaimedCondition, droverpolicyv1.ConflictCondition,
	droverpolicyv1.RolledBackCondition)

// failureDomainsHealthy is a condition of a MachineHealthCheck.
const failureDomainsHealthy = "FailureDomainsHealthy"

// Operation is the name of a phase or step in the label "operation": the name of its type.
func Operation(step any) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", step), "*")
}

// IncOperationErrors counts an error of an operation; no error is not counted.
func IncOperationErrors(operation string, err error) {
	if err != nil {
		failures.Inc(operation)
	}
}

// ObservePhase records how old a Machine was when it reached a phase.
func ObservePhase(phase clusterv1.MachinePhase, age time.Duration) {
	phaseSeconds.Observe(age.Seconds(), string(phase))
}

// ObserveReady records how old a Machine of a MachineDeployment was when it was ready for the first time.
func ObserveReady(deployment *clusterv1.MachineDeployment, age time.Duration) {
	readySeconds.Observe(age.Seconds(), client.ObjectKeyFromObject(deployment), deployment.Namespace, deployment.Name, deployment.Spec.ClusterName)
}

// IncRemediations counts a Machine that was deleted because it was unhealthy.
func IncRemediations(cluster client.ObjectKey) {
	remediations.Inc(cluster, cluster.Namespace, cluster.Name)
}

// ObserveConditionTransitions counts the transitions of the conditions of an object that was written.
func ObserveConditionTransitions(before, after client.Object) {
	was, ok := before.(interface{ GetConditions() []metav1.Condition })
	is, isToo := after.(interface{ GetConditions() []metav1.Condition })
	if !ok || !isToo {
		return
	}
	for _, t := range metric.Transitions(was.GetConditions(), is.GetConditions()) {
		transitions.Inc(kindOf(after), t.Condition, t.Status)
		if t.Condition == droverpolicyv1.FrozenCondition && t.Status == string(metav1.ConditionTrue) {
			freezes.Inc(t.Reason)
		}
	}
}

// kindOf is the kind of an object: the name of its type.
func kindOf(object client.Object) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// IsKnownOperation reports whether an operation is a value of the label "operation".
func IsKnownOperation(operation string) bool { return slices.Contains(operations.Values, operation) }
