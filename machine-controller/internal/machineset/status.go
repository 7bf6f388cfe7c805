// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

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
)

// tell writes the status, unless that can wait: only when it cannot are the conditions of all
// Machines summed up, which is most of the work.
func (r *Reconciler) tell(ctx context.Context, before *clusterv1.MachineSet, f *family) (reconcile.Result, error) {
	setStatus(f, r.Clock.Now())
	again, err := r.teller.Summed(ctx, before, f.set, pressing(before, f.set), coalesce.Sum{Machines: len(f.machines), To: func() {
		conditions.Set(f.set, aggregate.Ready(f.machines, clusterv1.MachineSetMachinesReadyCondition))
		conditions.Set(f.set, aggregate.UpToDate(f.machines, clusterv1.MachineSetMachinesUpToDateCondition))
	}})
	return again, outcome.Settled(err)
}

// rest keeps the counters of a set that is paused true: what was counted last may not have been
// written yet, and Machines go on living. Nothing else is touched.
func (r *Reconciler) rest(ctx context.Context, before *clusterv1.MachineSet, f *family) (reconcile.Result, error) {
	var err error
	if f.machines, err = index.MachinesOf(ctx, r.Client, f.set.Namespace, f.set.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(f)
	setPaused(f.set, true)
	again, err := r.teller.Status(ctx, before, f.set, pressing(before, f.set))
	return again, outcome.Settled(err)
}

// setStatus counts the Machines and derives the conditions, but for those that sum up others.
func setStatus(f *family, now time.Time) {
	status := &f.set.Status
	status.ObservedGeneration = f.set.Generation
	if matches, err := selector(f.set); err == nil {
		status.Selector = matches.String()
	}
	setCounts(f)
	f.frost.Show(f.set)
	setPaused(f.set, false)
	setScalingUp(f)
	setScalingDown(f, now)
	setRemediating(f)
	setDeleting(f)
}

func setCounts(f *family) {
	status := &f.set.Status
	status.Replicas = new(int32(len(f.machines) + f.born))
	status.ReadyReplicas = count(f.machines, clusterv1.MachineReadyCondition)
	status.AvailableReplicas = count(f.machines, clusterv1.MachineAvailableCondition)
	status.UpToDateReplicas = count(f.machines, clusterv1.MachineUpToDateCondition)
	status.Versions = versions(f.machines)
}

// pressing reports whether somebody waits to read the status: the MachineDeployment, which holds its
// plans until its last order was seen, and whoever waits for the fleet to be complete.
func pressing(before, after *clusterv1.MachineSet) bool {
	return before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		tally(before).Pressing(tally(after)) ||
		coalesce.Turned(before, after, clusterv1.PausedCondition, clusterv1.MachineSetDeletingCondition, policyv1.FrozenCondition)
}

func tally(set *clusterv1.MachineSet) coalesce.Count {
	s := &set.Status
	return coalesce.Count{
		Desired: int32(desiredReplicas(set)), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0), //nolint:gosec // the API bounds it
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// count is how many Machines have the condition; the caller may keep the pointer.
func count(machines []*clusterv1.Machine, condition string) *int32 {
	var n int32
	for _, m := range machines {
		if conditions.IsTrue(m, condition) {
			n++
		}
	}
	return &n
}

// versions counts the Machines by the kubelet version they report, sorted.
func versions(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	byVersion := map[string]int32{}
	for _, m := range machines {
		if m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" {
			byVersion[m.Status.NodeInfo.KubeletVersion]++
		}
	}
	var all []clusterv1.StatusVersion
	for version := range maps.Keys(byVersion) {
		all = append(all, clusterv1.StatusVersion{Version: version, Replicas: byVersion[version]})
	}
	slices.SortFunc(all, func(a, b clusterv1.StatusVersion) int { return cmp.Compare(a.Version, b.Version) })
	return all
}
