// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinetemplate is the one reconciler for the infrastructure machine templates of every cloud
// that can tell the size of an instance without having one. It writes status.capacity and
// status.nodeInfo, which the cluster autoscaler reads to scale a group up from zero. It creates nothing.
package machinetemplate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
)

// Reconciler reconciles the templates of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud    driver.Cloud[M, C]
	Client   client.Client
	Accounts *account.Book[M, C]
	// WatchFilter limits the templates to those whose watch-filter label has this value; empty means all.
	WatchFilter string
}

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"machinetemplate").
		For(r.Cloud.NewTemplate(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// Reconcile writes what a machine of the template would offer.
func (r *Reconciler[M, C]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	template := r.Cloud.NewTemplate()
	if err := r.Client.Get(ctx, request.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilter != "" && template.GetLabels()[clusterv1.WatchLabel] != r.WatchFilter || !template.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, nil
	}
	machine := template.Machine()
	machine.SetNamespace(template.GetNamespace())
	size, err := r.size(ctx, machine)
	if driver.IsInvalidConfiguration(err) {
		// The machines made from it tell so in a condition; a template has none.
		ctrl.LoggerFrom(ctx).Info("template has no size", "cause", err.Error())
		return ctrl.Result{}, nil
	}
	if err != nil || size == nil {
		return ctrl.Result{}, err
	}
	before := template.DeepCopyObject().(driver.Template[M])
	*template.GetStatus() = infrav1.MachineTemplateStatus{
		Capacity: size.Capacity,
		NodeInfo: infrav1.NodeInfo{Architecture: size.Architecture, OperatingSystem: size.OperatingSystem},
	}
	if equality.Semantic.DeepEqual(before.GetStatus(), template.GetStatus()) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Status().Patch(ctx, template, client.MergeFrom(before)))
}

// size returns nil for a cloud that cannot tell.
func (r *Reconciler[M, C]) size(ctx context.Context, machine M) (*driver.Size, error) {
	config, err := r.Cloud.Config(machine, "")
	if err != nil {
		return nil, err
	}
	cloud, err := r.Accounts.Driver(ctx, machine)
	if err != nil || cloud.Sizer == nil {
		return nil, err
	}
	size, err := cloud.Sizer.Size(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("sizing instance: %w", err)
	}
	return &size, nil
}
