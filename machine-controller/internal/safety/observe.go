// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/rollout"
)

// OwnerOfDeployment is what matters of a MachineDeployment.
func OwnerOfDeployment(md *clusterv1.MachineDeployment) Owner {
	owner := Owner{Title: fmt.Sprintf("MachineDeployment %q", md.Name), Desired: replicas(md, md.Spec.Replicas)}
	// An unreadable surge is the rollout's to complain about; here it is none.
	if limits, err := rollout.ResolveLimits(md.Spec.Rollout.Strategy, int32(owner.Desired)); err == nil {
		owner.Surge = int(limits.Surge)
	}
	return owner
}

// OwnerOfSet is what matters of a MachineSet that stands alone.
func OwnerOfSet(set *clusterv1.MachineSet) Owner {
	return Owner{Title: fmt.Sprintf("MachineSet %q", set.Name), Desired: replicas(set, set.Spec.Replicas)}
}

func replicas(object metav1.Object, n *int32) int {
	if n == nil || object.GetDeletionTimestamp() != nil {
		return 0
	}
	return int(*n)
}

// observeMachine is what matters of a Machine.
func observeMachine(m *clusterv1.Machine, owner string) Machine {
	failed := conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
	ready := conditions.Get(m, clusterv1.MachineNodeReadyCondition)
	deleting := !m.DeletionTimestamp.IsZero()
	seen := Machine{
		Name: m.Name, Owner: owner, Domain: m.Status.FailureDomain, Joined: m.Status.NodeRef.IsDefined(), Deleting: deleting,
		Replaced: deleting && (failed || conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)),
		Proving:  health.MarkedForOthers(m),
	}
	if replacement, is := health.ReplacementOf(m); is && !replacement.Settled {
		seen.Proving = true
	}
	if seen.Domain == "" {
		seen.Domain = m.Spec.FailureDomain
	}
	seen.Unhealthy = failed || seen.Replaced || (seen.Joined && ready != nil && ready.Status != metav1.ConditionTrue)
	return seen
}

// controllerUID is who controls an object; empty if nobody does.
func controllerUID(object metav1.Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.UID
	}
	return ""
}
