// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package templateowner makes each Cluster an owner of the templates that its MachineDeployments and MachineSets refer to, so
// that they are moved and deleted with it, also those of a MachineDeployment that never had a Machine. It changes nothing else
// of a template. What is created from templates is the matter of the machineset controller.
package templateowner

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// kindRetry is how often a kind of templates that cannot be watched is tried again.
const kindRetry = 30 * time.Second

// Reconciler reconciles Clusters. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: whether a Cluster that is about to become an owner exists.
	Live client.Reader
	// Contract reads the metadata of templates from the manager's cache.
	Contract *contract.Reader

	watch predicates.WatchFilter
}

// Register adds the controller to the manager, with all events that trigger a reconcile. Clusters of other managers pass:
// which objects are this manager's is the matter of the MachineDeployments and MachineSets.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch = watch
	referring := builder.WithPredicates(predicates.Changed(referenceOf))
	c, err := builder.ControllerManagedBy(mgr).
		Named("templateowner").
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicates.Changed(stateOfCluster))).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(clusterOf), referring).
		Watches(&clusterv1.MachineSet{}, coalesce.Map(clusterOf), referring).
		WithOptions(options).
		Build(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("registering the controller of the owners of templates: %w", err)
	}
	r.Contract.Watcher.Controller, r.Contract.Watcher.Metadata = c, r.templateEvents()
	return nil
}

// Reconcile makes one Cluster an owner of its templates. A template that does not exist triggers a reconcile when it does.
func (r *Reconciler) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (reconcile.Result, error) {
	if predicates.Paused(cluster, cluster) || !cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	refs, err := r.references(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var unclaimed []*metav1.PartialObjectMetadata
	var errs []error
	for _, ref := range refs {
		template, err := r.Contract.TemplateMetadata(ctx, cluster.Namespace, ref)
		switch {
		case apierrors.IsNotFound(err), contract.IsInvalidReference(err):
		case contract.IsMisconfigured(err):
			ctrl.LoggerFrom(ctx).V(1).Info("did not read a template", "reason", "TemplateUnreadable", "message", err.Error())
			result = results.Earliest(result, reconcile.Result{RequeueAfter: kindRetry})
		case err != nil:
			errs = append(errs, err)
		case r.mayClaim(template, cluster):
			unclaimed = append(unclaimed, template)
		}
	}
	again, err := r.claimAll(ctx, unclaimed, cluster)
	if err := kerrors.NewAggregate(append(errs, err)); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}

// references are the templates that the MachineDeployments and MachineSets of the Cluster refer to, each once. Those that are
// paused, being deleted, or another manager's do not count.
func (r *Reconciler) references(ctx context.Context, cluster *clusterv1.Cluster) ([]clusterv1.ContractVersionedObjectReference, error) {
	deployments, err := index.MachineDeploymentsOfCluster(ctx, r.Client, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil, err
	}
	sets, err := index.MachineSetsOfCluster(ctx, r.Client, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil, err
	}
	var refs []clusterv1.ContractVersionedObjectReference
	seen := map[clusterv1.ContractVersionedObjectReference]bool{}
	add := func(object client.Object, spec *clusterv1.MachineSpec) {
		if !r.watch.Matches(object) || object.GetDeletionTimestamp() != nil || predicates.Paused(nil, object) {
			return
		}
		for _, ref := range []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef, spec.Bootstrap.ConfigRef} {
			if ref.IsDefined() && !seen[ref] {
				seen[ref] = true
				refs = append(refs, ref)
			}
		}
	}
	for _, md := range deployments {
		add(md, &md.Spec.Template.Spec)
	}
	for _, set := range sets {
		add(set, &set.Spec.Template.Spec)
	}
	return refs, nil
}

// claimAll makes the Cluster an owner of the templates, if it exists: its owner reference to one that is gone would have the
// templates garbage collected.
func (r *Reconciler) claimAll(ctx context.Context, templates []*metav1.PartialObjectMetadata, cluster *clusterv1.Cluster) (reconcile.Result, error) {
	if len(templates) == 0 {
		return reconcile.Result{}, nil
	}
	if able, err := ownership.CanAdopt(ctx, r.Live, cluster); err != nil || !able {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var errs []error
	for _, template := range templates {
		again, err := results.RequeueOnConflict(claim(ctx, r.Client, template, cluster))
		result, errs = results.Earliest(result, again), append(errs, err)
	}
	return result, kerrors.NewAggregate(errs)
}
