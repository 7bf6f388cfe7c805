// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/aggregate"
	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// writeStatus writes the status, unless that can wait: only when it cannot are the conditions of all
// Machines summed up, which is most of the work.
func (r *Reconciler) writeStatus(ctx context.Context, before *clusterv1.MachineSet, s *state) (reconcile.Result, error) {
	setStatus(s, r.Clock.Now())
	if news := annotation.Judge(s.set, annotationRules(s.set)...); news != "" {
		annotationInvalid(r.Events, s.set, news)
	}
	again, err := r.statusWriter.WriteSummary(ctx, before, s.set, urgent(before, s.set), statuswriter.Summary{Machines: len(s.machines), Set: func() {
		conditions.Set(s.set, aggregate.Ready(s.machines, clusterv1.MachineSetMachinesReadyCondition))
		conditions.Set(s.set, aggregate.UpToDate(s.machines, clusterv1.MachineSetMachinesUpToDateCondition))
	}})
	return again, results.IgnoreNotFoundOrConflict(err)
}

// reconcilePaused keeps the counters of a set that is paused true: what was counted last may not have been
// written yet, and Machines go on living. Nothing else is touched.
func (r *Reconciler) reconcilePaused(ctx context.Context, before *clusterv1.MachineSet, s *state) (reconcile.Result, error) {
	var err error
	if s.machines, err = index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(s)
	conditions.Set(s.set, predicates.PausedCondition(s.cluster, s.set, "MachineSet"))
	again, err := r.statusWriter.Write(ctx, before, s.set, urgent(before, s.set))
	return again, results.IgnoreNotFoundOrConflict(err)
}

// setStatus counts the Machines and derives the conditions, but for those that sum up others.
func setStatus(s *state, now time.Time) {
	status := &s.set.Status
	status.ObservedGeneration = s.set.Generation
	if matches, err := selector(s.set); err == nil {
		status.Selector = matches.String()
	}
	setCounts(s)
	s.freeze.SetCondition(s.set)
	conditions.Set(s.set, predicates.PausedCondition(s.cluster, s.set, "MachineSet"))
	setScalingUp(s)
	setScalingDown(s, now)
	setRemediating(s)
	setDeleting(s)
}

func setCounts(s *state) {
	status := &s.set.Status
	status.Replicas = new(int32(len(s.machines) + s.created))
	status.ReadyReplicas = countTrue(s.machines, clusterv1.MachineReadyCondition)
	status.AvailableReplicas = countTrue(s.machines, clusterv1.MachineAvailableCondition)
	status.UpToDateReplicas = countTrue(s.machines, clusterv1.MachineUpToDateCondition)
	status.Versions = versions(s.machines)
}

// annotationRules are those for the annotations that are read from a MachineSet. One that belongs to a
// MachineDeployment has its annotations from there, and they are judged there.
func annotationRules(set *clusterv1.MachineSet) []annotation.Rule {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	return append([]annotation.Rule{annotation.Freeze}, annotation.NodeGroupSizes...)
}

// urgent reports whether somebody waits to read the status: the MachineDeployment, which holds its
// plans until its last order was seen, and whoever waits for the fleet to be complete.
func urgent(before, after *clusterv1.MachineSet) bool {
	return before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		replicaCounts(before).Urgent(replicaCounts(after)) ||
		statuswriter.ConditionsChanged(before, after, clusterv1.PausedCondition, clusterv1.MachineSetDeletingCondition, policyv1.FrozenCondition, policyv1.AnnotationsValidCondition)
}

func replicaCounts(set *clusterv1.MachineSet) statuswriter.Counts {
	s := &set.Status
	return statuswriter.Counts{
		Desired: int32(desiredReplicas(set)), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0), //nolint:gosec // the API bounds it
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// countTrue is how many Machines have the condition; the caller may keep the pointer.
func countTrue(machines []*clusterv1.Machine, condition string) *int32 {
	var n int32
	for _, m := range machines {
		if conditions.IsTrue(m, condition) {
			n++
		}
	}
	return &n
}

// versions counts the Machines by the version of their kubelet, or while that is not known, by the wanted one.
func versions(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	all := make([]clusterv1.StatusVersion, 0, len(machines))
	for _, m := range machines {
		version := kubeversion.Normalize(m.Spec.Version)
		if m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" {
			version = m.Status.NodeInfo.KubeletVersion
		}
		all = append(all, clusterv1.StatusVersion{Version: version, Replicas: 1})
	}
	return kubeversion.Count(all)
}
