// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/predicates"
	"drover.io/runtime/quantity"
)

// writeStatus writes the status, unless that can wait. After a reconcile that has failed, counters cannot: when the next one
// comes is decided by the backoff alone.
func (r *Reconciler) writeStatus(ctx context.Context, before *clusterv1.MachineDeployment, s *state, failure error) (reconcile.Result, error) {
	setStatus(s, r.Clock.Now())
	written, result, err := machineowner.Write(ctx, r.statusWriter, r.Events, machineowner.Status{
		Before: before, After: s.deployment, Machines: s.machines, Rules: annotationRules,
		Urgent: func() bool {
			return urgent(before, s.deployment) || failure != nil && replicaCounts(before) != replicaCounts(s.deployment)
		},
	})
	if written {
		logTransitions(ctx, before, s)
	}
	return result, err
}

// logTransitions logs which conditions about the Machines have changed with the status.
func logTransitions(ctx context.Context, before *clusterv1.MachineDeployment, s *state) {
	log, md := ctrl.LoggerFrom(ctx), s.deployment
	machineowner.LogFreeze(log, before, md, ptr.Deref(md.Status.Replicas, 0), int(desiredReplicas(md)))
	switch began, ended := machineowner.ConditionTrueTransition(before, md, clusterv1.MachineDeploymentRollingOutCondition); {
	case began:
		log.Info("started rollout", "revision", revision.Of(md), "previousRevision", previousRevision(s), "replicas", desiredReplicas(md), "count", superseded(s))
	case ended:
		log.Info("finished rollout", "revision", revision.Of(md), "replicas", desiredReplicas(md))
	}
}

// previousRevision is the highest revision of the superseded MachineSets that have Machines.
func previousRevision(s *state) int64 {
	previous := int64(0)
	for _, set := range s.sets {
		if supersededSet(s, set) && ptr.Deref(set.Status.Replicas, 0) > 0 {
			previous = max(previous, revision.Of(set))
		}
	}
	return previous
}

// setStatus sums up the MachineSets and derives the conditions, except those that sum up others.
func setStatus(s *state, now time.Time) {
	status := &s.deployment.Status
	status.ObservedGeneration = s.deployment.Generation
	if matches, err := selector(s.deployment); err == nil {
		status.Selector = matches.String()
	}
	setCounts(s, now)
	s.freeze.SetCondition(s.deployment)
	conditions.Set(s.deployment, predicates.PausedCondition(s.cluster, s.deployment, "MachineDeployment"))
	setAvailable(s)
	setRollingOut(s)
	setScalingUp(s)
	machineowner.SetScalingDown(s.deployment, machineowner.ScaleDown{
		Desired: int(desiredReplicas(s.deployment)), Current: int(*s.deployment.Status.Replicas), Machines: s.machines, Now: now,
		Blocked: cmp.Or(text(s.blocked), notLowered(s), blockedDeletion(s.sets)),
	})
	machineowner.SetRemediating(s.deployment, s.machines)
	notDeleted := s.blocked
	if ofSet := blockedSet(s.sets, clusterv1.DeletingCondition); notDeleted == nil && ofSet != "" {
		notDeleted = errors.New(ofSet)
	}
	machineowner.SetDeleting(s.deployment, quantity.Of(len(s.sets), "MachineSet")+" with "+quantity.Of(len(s.machines), "Machine"), notDeleted)
	setProgressing(s, now)
	clearRolledBack(s.deployment)
	status.SetTypedPhase(phaseOf(s.deployment))
}

// notLowered is why the MachineSets still are to have more Machines than wanted; empty once they are not.
func notLowered(s *state) string {
	left := int32(0)
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() {
			left += ptr.Deref(set.Spec.Replicas, 0)
		}
	}
	if left <= desiredReplicas(s.deployment) {
		return ""
	}
	return text(s.stalled)
}

func setCounts(s *state, now time.Time) {
	status := &s.deployment.Status
	status.Replicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.Replicas })
	status.ReadyReplicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.ReadyReplicas })
	status.AvailableReplicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.AvailableReplicas })
	status.UpToDateReplicas = sum(currentSets(s, now), func(s *clusterv1.MachineSetStatus) *int32 { return s.UpToDateReplicas })
	status.Versions = versions(s.sets)
}

// urgent reports whether the status cannot wait: clients wait until their change is observed or all Machines are complete,
// or must be notified that too few are available.
func urgent(before, after *clusterv1.MachineDeployment) bool {
	return machineowner.Urgent(before.Status.ObservedGeneration != after.Status.ObservedGeneration,
		replicaCounts(before), replicaCounts(after), before, after, clusterv1.MachineDeploymentAvailableCondition)
}

func replicaCounts(md *clusterv1.MachineDeployment) statuswriter.Counts {
	s := &md.Status
	return statuswriter.Counts{
		Desired: desiredReplicas(md), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0),
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// phaseOf is the phase, by the number of Machines alone: whether they are available is a condition.
func phaseOf(md *clusterv1.MachineDeployment) clusterv1.MachineDeploymentPhase {
	switch {
	case !md.DeletionTimestamp.IsZero():
		return clusterv1.MachineDeploymentPhaseScalingDown
	case md.Spec.Replicas == nil:
		return clusterv1.MachineDeploymentPhaseUnknown
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingUpCondition):
		return clusterv1.MachineDeploymentPhaseScalingUp
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingDownCondition):
		return clusterv1.MachineDeploymentPhaseScalingDown
	}
	return clusterv1.MachineDeploymentPhaseRunning
}

// currentSets is the MachineSet with the wanted template, if there is one yet. Only its Machines count as up to date, even
// before the condition of the others is updated.
func currentSets(s *state, now time.Time) []*clusterv1.MachineSet {
	if set, _ := revision.FindNewMachineSet(s.deployment, s.sets, now); set != nil {
		return []*clusterv1.MachineSet{set}
	}
	return nil
}

func sum(sets []*clusterv1.MachineSet, of func(*clusterv1.MachineSetStatus) *int32) *int32 {
	var total int32
	for _, set := range sets {
		if n := of(&set.Status); n != nil {
			total += *n
		}
	}
	return &total
}

// versions adds up the Machines of all sets by version.
func versions(sets []*clusterv1.MachineSet) []clusterv1.StatusVersion {
	var all []clusterv1.StatusVersion
	for _, set := range sets {
		all = append(all, set.Status.Versions...)
	}
	return kubeversion.Count(all, kubeversion.MaxOfOwner)
}
