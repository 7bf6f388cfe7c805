// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package unmark removes the conditions of health checks from Machines that no check of this manager selects any more,
// because its selector, their labels or the check itself has changed or was deleted: nothing would
// correct them, and a MachineSet would act upon them. It reconciles the Machines, so that changes
// while no manager ran are found as well.
package unmark

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/clusterpredicate"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// Reconciler reconciles Machines with conditions of health checks. All fields are required.
type Reconciler struct {
	Client    client.Client
	Writes    *expectation.Writes
	Selectors *health.Selectors
	Watch     predicates.WatchFilter
}

// Register adds the controller to the manager, with all events that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, options controller.Options) error {
	selectionChanged := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}) // labelled for another manager
	err := builder.ControllerManagedBy(mgr).
		Named("machinehealthcheck-unmark").
		For(&clusterv1.Machine{}, builder.WithPredicates(r.Watch.MatchingPredicate(), predicate.NewPredicateFuncs(marked))).
		Watches(&clusterv1.MachineHealthCheck{}, handler.EnqueueRequestsFromMapFunc(r.markedByCheck), builder.WithPredicates(selectionChanged)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.markedInCluster), builder.WithPredicates(clusterpredicate.StateChanged())).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(r.Watch, r)))
	if err != nil {
		return fmt.Errorf("registering the controller of health check marks: %w", err)
	}
	return nil
}

// Reconcile removes the conditions of health checks from a Machine, unless a check of this manager selects it.
func (r *Reconciler) Reconcile(ctx context.Context, m *clusterv1.Machine) (reconcile.Result, error) {
	if !health.HasConditions(m) || !m.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", m.Spec.ClusterName, err)
	case predicates.Paused(cluster, cluster):
		return reconcile.Result{}, nil
	}
	checks := &clusterv1.MachineHealthCheckList{}
	if err := r.Client.List(ctx, checks, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	for i := range checks.Items {
		check := &checks.Items[i]
		if r.Watch.Matches(check) && check.DeletionTimestamp.IsZero() && r.Selectors.Selects(check, m) {
			return reconcile.Result{}, nil
		}
	}
	wanted := m.DeepCopy()
	health.Unmark(wanted)
	if err := patch.Status(ctx, r.Client, m, wanted); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching the status of Machine %q: %w", m.Name, err))
	}
	ctrl.LoggerFrom(ctx).Info("removed health check conditions from Machine", "Cluster", klog.KRef(m.Namespace, m.Spec.ClusterName))
	r.Writes.Note(wanted)
	return reconcile.Result{}, nil
}

// marked passes Machines with a condition of a health check.
func marked(object client.Object) bool {
	m, ok := object.(*clusterv1.Machine)
	return ok && health.HasConditions(m)
}

// markedByCheck are the Machines that a check may not select any more after it was created, changed or deleted.
func (r *Reconciler) markedByCheck(ctx context.Context, object client.Object) []reconcile.Request {
	check, ok := object.(*clusterv1.MachineHealthCheck)
	if !ok {
		return nil
	}
	return r.markedMachines(ctx, client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName})
}

// markedInCluster are the Machines whose checks may have changed while the Cluster was paused.
func (r *Reconciler) markedInCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.markedMachines(ctx, client.ObjectKeyFromObject(cluster))
}

func (r *Reconciler) markedMachines(ctx context.Context, cluster client.ObjectKey) []reconcile.Request {
	machines, err := index.MachinesOfCluster(ctx, r.Client, cluster)
	if err != nil {
		return nil
	}
	var found []reconcile.Request
	for _, m := range machines {
		if health.HasConditions(m) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
	}
	return found
}
