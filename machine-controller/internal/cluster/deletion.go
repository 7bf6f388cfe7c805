// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/runtime/predicates"
	"drover.io/runtime/quantity"
	"drover.io/runtime/results"
)

// deletion deletes what belongs to a Cluster that is being deleted, in upstream's order: workers, control plane and its
// Machines, infrastructure.
type deletion struct {
	client client.Client
	// live reads from the API server itself.
	live  client.Reader
	watch predicates.WatchFilter
}

func (p deletion) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	// Another Cluster of this name may exist already, whose workers refer to the same name.
	if exists, err := ownership.Exists(ctx, p.live, s.cluster); err != nil || !exists {
		return reconcile.Result{}, err
	}
	for _, step := range []func(context.Context, *state) (bool, error){
		p.workers,
		p.controlPlane,
		p.infrastructure,
	} {
		done, err := step(ctx, s)
		if err == nil && done {
			continue
		}
		if refusal := results.Refusal(err); refusal != "" {
			s.deletion.block(refusal)
		}
		ctrl.LoggerFrom(ctx).V(1).Info("waiting to delete the Cluster", "reason", s.deletion.reason, "message", s.deletion.message)
		if foreign := s.workers.foreign(p.watch); foreign != nil {
			s.deletion.block(foreign.Error())
			return reconcile.Result{RequeueAfter: ownership.RetryPeriod}, err // its events trigger no reconcile
		}
		return reconcile.Result{}, err
	}
	controllerutil.RemoveFinalizer(s.cluster, clusterv1.ClusterFinalizer)
	return reconcile.Result{}, nil
}

func (p deletion) workers(ctx context.Context, s *state) (bool, error) {
	w := s.workers
	left := len(w.all) - len(w.controlPlane)
	if len(w.deployments)+len(w.sets)+left == 0 {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForWorkersDeletionReason,
		fmt.Sprintf("Waiting for %s, %s and %s to be deleted",
			quantity.Of(len(w.deployments), "MachineDeployment"), quantity.Of(len(w.sets), "MachineSet"), quantity.Of(left, "worker Machine"))}
	var errs []error
	for _, md := range w.deployments {
		errs = append(errs, p.delete(ctx, "MachineDeployment", md))
	}
	for _, set := range w.sets {
		errs = append(errs, p.delete(ctx, "MachineSet", set))
	}
	for _, m := range w.machines {
		errs = append(errs, p.delete(ctx, "Machine", m))
	}
	return false, kerrors.NewAggregate(errs)
}

func (p deletion) controlPlane(ctx context.Context, s *state) (bool, error) {
	if !s.cluster.Spec.ControlPlaneRef.IsDefined() && len(s.workers.controlPlane) == 0 {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason,
		fmt.Sprintf("Waiting for the control plane and %d of its Machines to be deleted", len(s.workers.controlPlane))}
	if s.controlPlane != nil {
		return false, p.deleteOwned(ctx, s, s.controlPlane.Unstructured)
	}
	if s.cluster.Spec.ControlPlaneRef.IsDefined() && !apierrors.IsNotFound(s.controlPlaneErr) && !s.leaves(s.controlPlaneErr) {
		s.deletion.blockForeign(s.controlPlaneErr)
		return false, nil // it may exist, and its Machines are then deleted by it
	}
	var errs []error
	for _, m := range s.workers.controlPlane {
		errs = append(errs, p.delete(ctx, "Machine", m))
	}
	return len(s.workers.controlPlane) == 0, kerrors.NewAggregate(errs)
}

func (p deletion) infrastructure(ctx context.Context, s *state) (bool, error) {
	if !s.cluster.Spec.InfrastructureRef.IsDefined() || apierrors.IsNotFound(s.infraErr) {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason,
		fmt.Sprintf("Waiting for %s %q to be deleted", s.cluster.Spec.InfrastructureRef.Kind, s.cluster.Spec.InfrastructureRef.Name)}
	if s.leaves(s.infraErr) {
		return true, nil // it belongs to something else, and stays
	}
	if s.infra == nil {
		s.deletion.blockForeign(s.infraErr)
		return false, nil
	}
	return false, p.deleteOwned(ctx, s, s.infra.Unstructured)
}

// leaves reports whether a referenced object that could not be used stays when the Cluster is deleted: something else owns it. One
// that is labelled for another manager stays only if the Cluster is not among its owners. Otherwise the deletion waits until the
// label or the owner has changed: a provider does not delete what such an object stands for once its Cluster is gone.
func (s *state) leaves(err error) bool {
	foreign, is := errors.AsType[*predicates.ForeignError](err)
	if !is {
		return ownership.IsRefused(err)
	}
	return !slices.ContainsFunc(foreign.Owners, func(owner metav1.OwnerReference) bool { return owner.UID == s.cluster.UID })
}

// deleteOwned deletes a provider's object that the Cluster owns, if it has not changed since it was read: its owner may be
// another Cluster by then. One whose adoption has failed waits for the next attempt.
func (p deletion) deleteOwned(ctx context.Context, s *state, object *unstructured.Unstructured) error {
	if !contract.HasOwner(object, s.cluster.UID) {
		return nil
	}
	return p.deleteIf(ctx, object.GetKind(), object, client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())})
}

func (p deletion) delete(ctx context.Context, kind string, object client.Object) error {
	return p.deleteIf(ctx, kind, object, client.Preconditions{UID: new(object.GetUID())})
}

// deleteIf deletes an object unless it is being deleted, or belongs to another manager.
func (p deletion) deleteIf(ctx context.Context, kind string, object client.Object, as client.Preconditions) error {
	if object.GetDeletionTimestamp() != nil || p.watch.Foreign(object) {
		return nil
	}
	if err := p.client.Delete(ctx, object, as); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting %s %q: %w", kind, object.GetName(), err))
	}
	ctrl.LoggerFrom(ctx).Info("deleted "+kind, kind, klog.KObj(object))
	return nil
}
