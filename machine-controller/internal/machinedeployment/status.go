// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/aggregate"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/rollout"
)

// tell writes the status, unless that can wait: only when it cannot are the conditions of all
// Machines summed up, which is most of the work.
func (r *Reconciler) tell(ctx context.Context, before *clusterv1.MachineDeployment, f *fleet) (reconcile.Result, error) {
	setStatus(f, r.Clock.Now())
	again, err := r.teller.Summed(ctx, before, f.deployment, pressing(before, f.deployment), coalesce.Sum{Machines: len(f.machines), To: func() {
		conditions.Set(f.deployment, aggregate.Ready(f.machines, clusterv1.MachineDeploymentMachinesReadyCondition))
		conditions.Set(f.deployment, aggregate.UpToDate(f.machines, clusterv1.MachineDeploymentMachinesUpToDateCondition))
	}})
	return again, outcome.Settled(err)
}

// rest keeps the counters of a deployment that is paused true: what was counted last may not
// have been written yet, and MachineSets go on living. Nothing else is touched.
func (r *Reconciler) rest(ctx context.Context, before *clusterv1.MachineDeployment, f *fleet) (reconcile.Result, error) {
	var err error
	if f.sets, err = index.MachineSetsOf(ctx, r.Client, f.deployment.Namespace, f.deployment.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(f, r.Clock.Now())
	setPaused(f.deployment, true)
	again, err := r.teller.Status(ctx, before, f.deployment, pressing(before, f.deployment))
	return again, outcome.Settled(err)
}

// setStatus sums up the MachineSets and derives the conditions, but for those that sum up others.
func setStatus(f *fleet, now time.Time) {
	status := &f.deployment.Status
	status.ObservedGeneration = f.deployment.Generation
	if matches, err := selector(f.deployment); err == nil {
		status.Selector = matches.String()
	}
	setCounts(f, now)
	f.frost.Show(f.deployment)
	setPaused(f.deployment, false)
	setAvailable(f)
	setRollingOut(f)
	setScalingUp(f)
	setScalingDown(f, now)
	setRemediating(f)
	setDeleting(f)
	setProgressing(f, now)
	forgetRollback(f.deployment)
	status.SetTypedPhase(phaseOf(f.deployment))
}

func setCounts(f *fleet, now time.Time) {
	status := &f.deployment.Status
	status.Replicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.Replicas })
	status.ReadyReplicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.ReadyReplicas })
	status.AvailableReplicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.AvailableReplicas })
	status.UpToDateReplicas = sum(current(f, now), func(s *clusterv1.MachineSetStatus) *int32 { return s.UpToDateReplicas })
	status.Versions = versions(f.sets)
}

// pressing reports whether somebody waits to read the status: whoever waits for the order to be seen, or
// for the fleet to be complete, or must know that it is not available.
func pressing(before, after *clusterv1.MachineDeployment) bool {
	return before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		tally(before).Pressing(tally(after)) ||
		coalesce.Turned(before, after, clusterv1.PausedCondition, clusterv1.MachineDeploymentDeletingCondition,
			clusterv1.MachineDeploymentAvailableCondition, policyv1.FrozenCondition)
}

func tally(md *clusterv1.MachineDeployment) coalesce.Count {
	s := &md.Status
	return coalesce.Count{
		Desired: desiredReplicas(md), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0),
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// phaseOf names what the deployment is doing.
func phaseOf(md *clusterv1.MachineDeployment) clusterv1.MachineDeploymentPhase {
	switch {
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingUpCondition):
		return clusterv1.MachineDeploymentPhaseScalingUp
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingDownCondition):
		return clusterv1.MachineDeploymentPhaseScalingDown
	case conditions.IsTrue(md, clusterv1.MachineDeploymentAvailableCondition):
		return clusterv1.MachineDeploymentPhaseRunning
	}
	return clusterv1.MachineDeploymentPhaseUnknown
}

// current is the MachineSet that the deployment is rolling out, if there is one yet. No other has
// Machines that are up to date, even while these do not know that they are not any more.
func current(f *fleet, now time.Time) []*clusterv1.MachineSet {
	if set, _ := rollout.FindCurrent(f.deployment, f.sets, now); set != nil {
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

// versions adds up the Machines of all sets by kubelet version, sorted.
func versions(sets []*clusterv1.MachineSet) []clusterv1.StatusVersion {
	byVersion := map[string]int32{}
	for _, set := range sets {
		for _, each := range set.Status.Versions {
			byVersion[each.Version] += each.Replicas
		}
	}
	var all []clusterv1.StatusVersion
	for _, version := range slices.SortedFunc(maps.Keys(byVersion), cmp.Compare[string]) {
		all = append(all, clusterv1.StatusVersion{Version: version, Replicas: byVersion[version]})
	}
	return all
}
