// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
)

// Types and reasons are upstream's.

// boolCondition is a condition of one type that is either true or false, each with its reason.
func boolCondition(kind string, is bool, reason, otherwise string) metav1.Condition {
	if is {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: otherwise}
}

func infrastructureReady(s *state) metav1.Condition {
	ref := s.cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return metav1.Condition{
			Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.NoInfrastructureReferenceReason,
		}
	}
	done := s.cluster.Status.Initialization.InfrastructureProvisioned != nil
	condition := unread(ref, s.infraErr, done)
	if s.infra != nil {
		condition = s.infra.ReadyCondition(done, "status.initialization.provisioned")
	}
	condition.Type = clusterv1.ClusterInfrastructureReadyCondition
	return condition
}

func controlPlaneInitialized(s *state) metav1.Condition {
	done := s.cluster.Status.Initialization.ControlPlaneInitialized
	condition := boolCondition(clusterv1.ClusterControlPlaneInitializedCondition, done != nil && *done,
		clusterv1.ClusterControlPlaneInitializedReason, clusterv1.ClusterControlPlaneNotInitializedReason)
	if condition.Status == metav1.ConditionFalse && !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		condition.Message = "Waiting for the first connection to the workload cluster"
	}
	return condition
}

// controlPlaneAvailable mirrors the control plane object; an externally managed control plane is
// available while it is connected.
func controlPlaneAvailable(s *state) metav1.Condition {
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		if last := conditions.Get(s.cluster, clusterv1.ClusterControlPlaneAvailableCondition); last != nil && connecting(s) {
			return *last
		}
		condition := boolCondition(clusterv1.ClusterControlPlaneAvailableCondition, s.connection.Connected,
			clusterv1.ClusterControlPlaneAvailableReason, clusterv1.ClusterControlPlaneNotAvailableReason)
		if !s.connection.Connected {
			condition.Message = connectionMessage(s)
		}
		return condition
	}
	done := s.cluster.Status.Initialization.ControlPlaneInitialized != nil
	condition := unread(ref, s.controlPlaneErr, done)
	if s.controlPlane != nil {
		condition = s.controlPlane.AvailableCondition(done)
	}
	condition.Type = clusterv1.ClusterControlPlaneAvailableCondition
	return condition
}

// unread is why there is no condition of a referenced object to mirror.
func unread(ref clusterv1.ContractVersionedObjectReference, err error, done bool) metav1.Condition {
	if err != nil {
		return ownership.UnreadableCondition(ref, err, done)
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: clusterv1.InternalErrorReason, Message: fmt.Sprintf("%s %q was not read", ref.Kind, ref.Name)}
}

// connecting reports whether no attempt to connect has ended since this process started: the
// conditions stay as they are until then.
func connecting(s *state) bool {
	return !s.connection.Connected && (s.connection.Reason == "" || s.connection.Reason == workload.ReasonConnecting)
}

func connectionProbe(s *state) metav1.Condition {
	if last := conditions.Get(s.cluster, clusterv1.ClusterRemoteConnectionProbeCondition); last != nil && connecting(s) {
		return *last
	}
	condition := boolCondition(clusterv1.ClusterRemoteConnectionProbeCondition, s.connection.Connected && s.connection.Reason == "",
		clusterv1.ClusterRemoteConnectionProbeSucceededReason, clusterv1.ClusterRemoteConnectionProbeFailedReason)
	if condition.Status == metav1.ConditionFalse {
		condition.Message = connectionMessage(s)
	}
	return condition
}

func connectionMessage(s *state) string {
	if s.connection.Message == "" {
		return "Not connected to the workload cluster yet"
	}
	return fmt.Sprintf("%s: %s", s.connection.Reason, s.connection.Message)
}

// setClaimed sets ManagementClaimed once an attempt to claim the workload cluster has ended. A claim that a
// process before this one held does not count: the cluster may be a copy since.
func setClaimed(s *state) {
	condition := metav1.Condition{Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse, Message: s.connection.Claim.Message}
	switch s.connection.Claim.Status {
	case workload.ClaimHeld:
		condition.Status, condition.Reason = metav1.ConditionTrue, droverpolicyv1.ClaimedReason
	case workload.ClaimForeign:
		condition.Reason = droverpolicyv1.ClaimedElsewhereReason
	case workload.ClaimForbidden:
		condition.Reason = droverpolicyv1.ClaimForbiddenReason
	default:
		if connecting(s) {
			return // for a moment after each start
		}
		condition.Status, condition.Reason = metav1.ConditionUnknown, droverpolicyv1.NotClaimedYetReason
		if condition.Message == "" {
			condition.Message = "Waiting for the first connection to the workload cluster since machine-controller started"
		}
	}
	conditions.Set(s.cluster, condition)
}

func workersAvailable(s *state) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ClusterWorkersAvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ClusterWorkersAvailableNoWorkersReason}
	if len(s.workers.deployments) == 0 {
		return condition
	}
	summed, err := conditions.NewAggregateCondition(s.workers.deployments, clusterv1.MachineDeploymentAvailableCondition,
		conditions.TargetConditionType(condition.Type),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(
			conditions.GetDefaultComputeMergeReasonFunc(clusterv1.ClusterWorkersNotAvailableReason, clusterv1.ClusterWorkersAvailableUnknownReason, clusterv1.ClusterWorkersAvailableReason),
		))})
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, clusterv1.ClusterWorkersAvailableInternalErrorReason, err.Error()
		return condition
	}
	return *summed
}

func deleting(s *state) metav1.Condition {
	condition := boolCondition(clusterv1.ClusterDeletingCondition, !s.cluster.DeletionTimestamp.IsZero(),
		clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, clusterv1.ClusterNotDeletingReason)
	if s.deletion.reason != "" {
		condition.Reason, condition.Message = s.deletion.reason, s.deletion.message
	}
	return condition
}
