// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/index"
)

// setsForUncontrolledMachine returns the MachineSets that could adopt a Machine. It compiles no selector, as the handlers of
// events of all namespaces wait for it: a reconcile does.
func (r *Reconciler) setsForUncontrolledMachine(ctx context.Context, object client.Object) []reconcile.Request {
	m, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	sets, err := index.MachineSetsOfCluster(ctx, r.Client, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		return nil
	}
	var found []reconcile.Request
	for _, set := range sets {
		if matches, known := r.selectors.Known(set); !known || matches != nil && adoptable(set, m, matches) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return found
}

// uncontrolledMachines passes the Machines without a controller.
func uncontrolledMachines() predicate.Predicate {
	uncontrolled := func(object client.Object) bool { return metav1.GetControllerOfNoCopy(object) == nil }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return uncontrolled(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return uncontrolled(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func (r *Reconciler) setsOfCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return r.setsOfConnection(client.ObjectKeyFromObject(cluster))
}

func (r *Reconciler) setsOfConnection(cluster client.ObjectKey) []reconcile.Request {
	sets, err := index.MachineSetsOfCluster(context.Background(), r.Client, cluster)
	if err != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(sets))
	for _, set := range sets {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
	}
	return found
}
