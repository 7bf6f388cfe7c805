// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinepolicy reports on MachinePolicies: how many objects each selects, and which
// others select the same. It changes nothing else; package safety reads the policies, and the
// controllers that create, replace and drain call it.
package machinepolicy

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/runtime/predicates"
)

// +kubebuilder:rbac:groups=policy.drover.io,resources=machinepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=policy.drover.io,resources=machinepolicies/status,verbs=patch

// Reconciler reconciles MachinePolicies. All fields are required.
type Reconciler struct {
	Client client.Client

	watch     predicates.WatchFilter
	selectors policy.Selectors
}

// Register adds the controller to the manager, with all watches that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch = watch
	labels := builder.WithPredicates(predicate.LabelChangedPredicate{})
	// A change of the labels can be one to or from another manager, whose policies do not count.
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	err := builder.ControllerManagedBy(mgr).
		For(&droverpolicyv1.MachinePolicy{}, builder.WithPredicates(watch.MatchingPredicate(), changed)).
		Watches(&droverpolicyv1.MachinePolicy{}, coalesce.Map(r.policiesOfNamespace), builder.WithPredicates(changed)).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(r.policiesOfNamespace), labels).
		Watches(&clusterv1.MachineSet{}, coalesce.Map(r.policiesOfNamespace), labels).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machinepolicy controller: %w", err)
	}
	return nil
}

// Reconcile counts the objects that one MachinePolicy selects, and reports whether it is in force for them.
func (r *Reconciler) Reconcile(ctx context.Context, policy *droverpolicyv1.MachinePolicy) (reconcile.Result, error) {
	if !policy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	before := policy.DeepCopy()
	policies := &droverpolicyv1.MachinePolicyList{}
	if err := r.Client.List(ctx, policies, client.InNamespace(policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing MachinePolicies: %w", err)
	}
	owners, err := r.owners(ctx, policy.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	ours := slices.DeleteFunc(slices.Clone(policies.Items), func(p droverpolicyv1.MachinePolicy) bool { return !r.watch.Matches(&p) })
	setStatus(policy, r.selectors.Candidates(ours), owners)
	if err := patch.Status(ctx, r.Client, before, policy); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("patching the status of MachinePolicy: %w", err)
	}
	return reconcile.Result{}, nil
}

// owners returns the objects that a policy can select: MachineDeployments, and MachineSets without one.
func (r *Reconciler) owners(ctx context.Context, namespace string) ([]owner, error) {
	deployments := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, deployments, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	sets := &clusterv1.MachineSetList{}
	if err := r.Client.List(ctx, sets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	var all []owner
	for i := range deployments.Items {
		if !r.watch.Matches(&deployments.Items[i]) {
			continue
		}
		all = append(all, owner{"MachineDeployment " + deployments.Items[i].Name, deployments.Items[i].Labels})
	}
	for i := range sets.Items {
		if r.watch.Matches(&sets.Items[i]) && metav1.GetControllerOfNoCopy(&sets.Items[i]) == nil {
			all = append(all, owner{"MachineSet " + sets.Items[i].Name, sets.Items[i].Labels})
		}
	}
	return all, nil
}

// policiesOfNamespace returns every policy of the object's namespace.
func (r *Reconciler) policiesOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	list := &droverpolicyv1.MachinePolicyList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return found
}
