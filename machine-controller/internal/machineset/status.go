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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/predicates"
	"drover.io/runtime/quantity"
)

// writeStatus writes the status, unless that can wait. After a reconcile that has failed, counters cannot: when the next one
// comes is decided by the backoff alone.
func (r *Reconciler) writeStatus(ctx context.Context, before *clusterv1.MachineSet, s *state, failure error) (reconcile.Result, error) {
	setStatus(s, r.Clock.Now())
	written, result, err := machineowner.Write(ctx, r.statusWriter, r.Events, machineowner.Status{
		Before: before, After: s.set, Machines: s.machines, Rules: annotationRules(s.set),
		Urgent: func() bool {
			return urgent(before, s.set) || failure != nil && replicaCounts(before) != replicaCounts(s.set)
		},
	})
	if written {
		logTransitions(ctx, before, s)
	}
	return result, err
}

// logTransitions logs which conditions about the Machines have changed with the status.
func logTransitions(ctx context.Context, before *clusterv1.MachineSet, s *state) {
	log := ctrl.LoggerFrom(ctx)
	machineowner.LogFreeze(log, before, s.set, ptr.Deref(s.set.Status.Replicas, 0), desiredReplicas(s.set))
	switch began, ended := machineowner.ConditionTrueTransition(before, s.set, clusterv1.MachineSetRemediatingCondition); {
	case began:
		log.Info("started remediation of MachineSet", "count", machineowner.CountRemediating(s.machines))
	case ended:
		log.Info("finished remediation of MachineSet")
	}
}

// setStatus counts the Machines and derives the conditions, except those that sum up others.
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
	machineowner.SetScalingDown(s.set, machineowner.ScaleDown{
		Desired: desiredReplicas(s.set), Current: len(s.machines), Blocked: s.scaleDownBlocked, Machines: s.machines, Now: now,
	})
	machineowner.SetRemediating(s.set, s.machines)
	machineowner.SetDeleting(s.set, quantity.Of(len(s.machines), "Machine"), s.blocked)
}

func setCounts(s *state) {
	status := &s.set.Status
	status.Replicas = new(int32(len(s.machines) + s.created))
	status.ReadyReplicas = countTrue(s.machines, clusterv1.MachineReadyCondition)
	status.AvailableReplicas = countTrue(s.machines, clusterv1.MachineAvailableCondition)
	status.UpToDateReplicas = countTrue(s.machines, clusterv1.MachineUpToDateCondition)
	status.Versions = kubeversion.Count(kubeversion.OfMachines(s.machines), kubeversion.MaxOfOwner)
}

// annotationRules are those for the annotations that are read from a MachineSet. One of a MachineDeployment has its
// annotations from there, and they are checked there.
func annotationRules(set *clusterv1.MachineSet) []annotation.Rule {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	return append([]annotation.Rule{annotation.Freeze, annotation.SkipPreflightChecks}, annotation.NodeGroupSizes...)
}

// urgent reports whether the status cannot wait: the MachineDeployment waits until its last change is observed, and other
// clients until all Machines are complete.
func urgent(before, after *clusterv1.MachineSet) bool {
	return machineowner.Urgent(before.Status.ObservedGeneration != after.Status.ObservedGeneration,
		replicaCounts(before), replicaCounts(after), before, after)
}

func replicaCounts(set *clusterv1.MachineSet) statuswriter.Counts {
	s := &set.Status
	return statuswriter.Counts{
		Desired: int32(desiredReplicas(set)), Replicas: ptr.Deref(s.Replicas, 0), Ready: ptr.Deref(s.ReadyReplicas, 0), //nolint:gosec // the API bounds it
		Available: ptr.Deref(s.AvailableReplicas, 0), UpToDate: ptr.Deref(s.UpToDateReplicas, 0),
	}
}

// countTrue counts the Machines with the condition; the caller may keep the pointer.
func countTrue(machines []*clusterv1.Machine, condition string) *int32 {
	var n int32
	for _, m := range machines {
		if conditions.IsTrue(m, condition) {
			n++
		}
	}
	return &n
}
