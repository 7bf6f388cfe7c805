// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/safety/budget"
)

// OwnerOfDeployment returns the owner that a MachineDeployment is.
func OwnerOfDeployment(md *clusterv1.MachineDeployment) budget.Owner {
	owner := budget.Owner{Title: fmt.Sprintf("MachineDeployment %q", md.Name), Desired: replicas(md, md.Spec.Replicas)}
	// An invalid surge counts as 0; the rollout reports it.
	if limits, err := rollout.ResolveLimits(md.Spec.Rollout.Strategy, int32(owner.Desired)); err == nil {
		owner.Surge = int(limits.Surge)
	}
	return owner
}

// OwnerOfSet returns the owner that a MachineSet without a MachineDeployment is.
func OwnerOfSet(set *clusterv1.MachineSet) budget.Owner {
	return budget.Owner{Title: fmt.Sprintf("MachineSet %q", set.Name), Desired: replicas(set, set.Spec.Replicas)}
}

func replicas(object metav1.Object, n *int32) int {
	if n == nil || object.GetDeletionTimestamp() != nil {
		return 0
	}
	return int(*n)
}

// observeMachine reads from a Machine what a Gate decides on.
func observeMachine(m *clusterv1.Machine, owner string) budget.Machine {
	failed := conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
	ready := conditions.Get(m, clusterv1.MachineNodeReadyCondition)
	deleting := !m.DeletionTimestamp.IsZero()
	observed := budget.Machine{
		Name: m.Name, Owner: owner, Domain: m.Status.FailureDomain, Joined: m.Status.NodeRef.IsDefined(), Deleting: deleting,
		Replaced:  deleting && (failed || conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)),
		Requested: annotation.Present(m, clusterv1.RemediateMachineAnnotation),
		Proving:   health.MarkedForOthers(m) || (health.Unsettled(m) && !health.RefusedByOwner(m)),
	}
	if observed.Domain == "" {
		observed.Domain = m.Spec.FailureDomain
	}
	observed.Unhealthy = failed || observed.Replaced || (observed.Joined && ready != nil && ready.Status != metav1.ConditionTrue)
	return observed
}

// controllerUID is the UID of the object's controller; empty without one.
func controllerUID(object metav1.Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.UID
	}
	return ""
}
