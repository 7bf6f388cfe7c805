// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/aggregate"
	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// writeStatus writes the status, unless that can wait: only when it cannot are the conditions of all
// Machines summed up, which is most of the work.
func (r *Reconciler) writeStatus(ctx context.Context, before *clusterv1.MachineDeployment, s *state) (reconcile.Result, error) {
	setStatus(s, r.Clock.Now())
	if news := annotation.Judge(s.deployment, annotationRules...); news != "" {
		annotationInvalid(r.Events, s.deployment, news)
	}
	again, err := r.statusWriter.WriteSummary(ctx, before, s.deployment, urgent(before, s.deployment), statuswriter.Summary{Machines: len(s.machines), Set: func() {
		conditions.Set(s.deployment, aggregate.Ready(s.machines, clusterv1.MachineDeploymentMachinesReadyCondition))
		conditions.Set(s.deployment, aggregate.UpToDate(s.machines, clusterv1.MachineDeploymentMachinesUpToDateCondition))
	}})
	return again, results.IgnoreNotFoundOrConflict(err)
}

// reconcilePaused keeps the counters of a deployment that is paused true: what was counted last may not
// have been written yet, and MachineSets go on living. Nothing else is touched.
func (r *Reconciler) reconcilePaused(ctx context.Context, before *clusterv1.MachineDeployment, s *state) (reconcile.Result, error) {
	var err error
	if s.sets, err = index.MachineSetsOf(ctx, r.Client, s.deployment.Namespace, s.deployment.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(s, r.Clock.Now())
	conditions.Set(s.deployment, predicates.PausedCondition(s.cluster, s.deployment, "MachineDeployment"))
	again, err := r.statusWriter.Write(ctx, before, s.deployment, urgent(before, s.deployment))
	return again, results.IgnoreNotFoundOrConflict(err)
}

// setStatus sums up the MachineSets and derives the conditions, but for those that sum up others.
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
	setScalingDown(s, now)
	setRemediating(s)
	setDeleting(s)
	setProgressing(s, now)
	clearRolledBack(s.deployment)
	status.SetTypedPhase(phaseOf(s.deployment))
}

func setCounts(s *state, now time.Time) {
	status := &s.deployment.Status
	status.Replicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.Replicas })
	status.ReadyReplicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.ReadyReplicas })
	status.AvailableReplicas = sum(s.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.AvailableReplicas })
	status.UpToDateReplicas = sum(currentSets(s, now), func(s *clusterv1.MachineSetStatus) *int32 { return s.UpToDateReplicas })
	status.Versions = versions(s.sets)
}

// urgent reports whether somebody waits to read the status: whoever waits for the order to be seen, or
// for the fleet to be complete, or must know that it is not available.
func urgent(before, after *clusterv1.MachineDeployment) bool {
	return before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		replicaCounts(before).Urgent(replicaCounts(after)) ||
		statuswriter.ConditionsChanged(before, after, clusterv1.PausedCondition, clusterv1.MachineDeploymentDeletingCondition,
			clusterv1.MachineDeploymentAvailableCondition, policyv1.FrozenCondition, policyv1.AnnotationsValidCondition)
}

func replicaCounts(md *clusterv1.MachineDeployment) statuswriter.Counts {
	s := &md.Status
	return statuswriter.Counts{
		Desired: desiredReplicas(md), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0),
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// phaseOf names what the deployment is doing, by the number of its Machines alone: whether they are available is
// a condition.
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

// currentSets is the MachineSet that the deployment is rolling out, if there is one yet. No other has
// Machines that are up to date, even while these do not know that they are not any more.
func currentSets(s *state, now time.Time) []*clusterv1.MachineSet {
	if set, _ := revision.FindCurrent(s.deployment, s.sets, now); set != nil {
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
	return kubeversion.Count(all)
}
