// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterpredicate decides which changes of a Cluster trigger reconciles of its Machines, MachineSets and
// MachineDeployments.
package clusterpredicate

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/machine-controller/internal/annotation"
)

// StateChanged passes the changes of a Cluster that its Machines, MachineSets and MachineDeployments act on: being
// paused or resumed, deleted, becoming usable, or allowing Machines to assign providerIDs. It does not pass the end
// of a Cluster: its dependents are deleted then.
func StateChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Cluster)
			after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
			return !ok || !ok2 || stateOf(before) != stateOf(after)
		},
	}
}

type state struct {
	paused, deleting, provisioned, initialized, assigns bool
}

func stateOf(c *clusterv1.Cluster) state {
	return state{
		paused:      ptr.Deref(c.Spec.Paused, false),
		deleting:    !c.DeletionTimestamp.IsZero(),
		provisioned: ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
		assigns:     annotation.AssignsProviderIDs(c),
		initialized: ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false),
	}
}
