// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// setSkipped reports whether the machine is not reconciled now, and sets the condition that explains it: its Cluster does
// not exist, it is paused, or another management cluster has the claim on its workload cluster.
func (r *Reconciler) setSkipped(ctx context.Context, s *state) bool {
	log := ctrl.LoggerFrom(ctx).V(1)
	if s.cluster == nil {
		log.Info("waiting for the Cluster to exist")
		setClusterMissing(s.machine)
		return true
	}
	if predicates.Paused(s.cluster, s.machine) {
		log.Info("skipped the paused Machine")
		conditions.Set(s.machine, predicates.PausedCondition(s.cluster, s.machine, "Machine"))
		return true
	}
	if claim := r.Workloads.State(s.clusterKey()).Claim; claim.Status == workload.ClaimForeign {
		log.Info("skipped the Machine of a Cluster that another management cluster claims", "message", claim.Message)
		setClaimedElsewhere(s.machine, claim.Message)
		return true
	}
	return false
}

// setStatus derives conditions and phase from what the phases have observed. Its result is when the
// passing of time alone changes the outcome.
func (r *Reconciler) setStatus(s *state) reconcile.Result {
	status := &s.machine.Status
	status.ObservedGeneration = s.machine.Generation
	now := r.Clock.Now()

	conditions.Set(s.machine, predicates.PausedCondition(s.cluster, s.machine, "Machine"))
	setBootstrapConfigReady(s)
	setInfrastructureReady(s)
	result := r.setNodeConditions(s, now)
	setDeleting(s)
	setUpdating(s.machine)
	setUpToDate(s, now)
	setReady(s.machine, now)
	available := setAvailable(s.machine, now)

	if phase := phaseOf(s.machine); status.Phase != string(phase) {
		status.SetTypedPhase(phase)
		status.LastUpdated = metav1.NewTime(now)
	}
	return results.Earliest(result, available)
}

// phaseOf returns the phase of a machine:
//
//	Pending -> Provisioning -> Provisioned -> Running -> Deleting
//	  |  bootstrap data  |  providerID  |  nodeRef  |
func phaseOf(m *clusterv1.Machine) clusterv1.MachinePhase {
	initialized := m.Status.Initialization
	switch {
	case !m.DeletionTimestamp.IsZero():
		return clusterv1.MachinePhaseDeleting
	case m.Status.NodeRef.IsDefined() && isTrue(initialized.InfrastructureProvisioned):
		return clusterv1.MachinePhaseRunning
	case m.Spec.ProviderID != "":
		return clusterv1.MachinePhaseProvisioned
	case isTrue(initialized.BootstrapDataSecretCreated):
		return clusterv1.MachinePhaseProvisioning
	}
	return clusterv1.MachinePhasePending
}

func isTrue(b *bool) bool { return b != nil && *b }
