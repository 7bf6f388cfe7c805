// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package filter decides which objects and events a controller leaves alone: those of
// another manager's watch filter, those that are paused, and changes that concern nobody.
// It owns no state; every controller registers its watches with it.
package filter

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// WatchLabel passes objects whose watch-filter label has the value; an empty value passes all.
func WatchLabel(value string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return value == "" || object.GetLabels()[clusterv1.WatchLabel] == value
	})
}

// Paused reports whether the object must not be reconciled, not even deleted: by its own
// annotation or by its Cluster.
func Paused(cluster *clusterv1.Cluster, object client.Object) bool {
	if cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		return true
	}
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// AssignProviderIDsAnnotation on a Cluster, with the value "true", lets its Machines write
// their providerID to Nodes that have none, in place of a cloud controller manager.
const AssignProviderIDsAnnotation = "drover.io/assign-provider-ids"

// AssignsProviderIDs reports whether the Cluster asks for that.
func AssignsProviderIDs(cluster *clusterv1.Cluster) bool {
	return cluster.Annotations[AssignProviderIDsAnnotation] == "true"
}

// ClusterTurns passes the changes of a Cluster that its Machines, MachineSets and
// MachineDeployments act on: being paused or resumed, deleted, becoming usable, or letting
// Machines assign providerIDs.
func ClusterTurns() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Cluster)
			after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
			return !ok || !ok2 || turn(before) != turn(after)
		},
	}
}

type turning struct {
	paused, deleting, provisioned, initialized, assigns bool
}

func turn(c *clusterv1.Cluster) turning {
	return turning{
		paused:      c.Spec.Paused != nil && *c.Spec.Paused,
		deleting:    !c.DeletionTimestamp.IsZero(),
		provisioned: c.Status.Initialization.InfrastructureProvisioned != nil && *c.Status.Initialization.InfrastructureProvisioned,
		assigns:     AssignsProviderIDs(c),
		initialized: c.Status.Initialization.ControlPlaneInitialized != nil && *c.Status.Initialization.ControlPlaneInitialized,
	}
}
