// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownerref"
	"drover.io/runtime/results"
)

// finalize deletes what belongs to the Cluster, in upstream's order: workers, control plane
// machines and control plane, infrastructure.
func (r *Reconciler) finalize(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	// Another Cluster of this name may exist already, whose workers have this name, too.
	if exists, err := ownerref.Exists(ctx, r.Live, s.cluster); err != nil || !exists {
		return reconcile.Result{}, err
	}
	for _, stage := range []func(context.Context, *state) (bool, error){
		r.workersGone,
		r.controlPlaneGone,
		r.infrastructureGone,
	} {
		done, err := stage(ctx, s)
		if err == nil && done {
			continue
		}
		ctrl.LoggerFrom(ctx).V(1).Info("waiting to delete the Cluster", "reason", s.deletion.reason, "message", s.deletion.message)
		if foreign := s.workers.foreign(r.watch); foreign != nil {
			s.deletion.message += ": " + foreign.Error()
			return reconcile.Result{RequeueAfter: absentRetry}, err // what becomes of it is no event here
		}
		return reconcile.Result{}, err
	}
	controllerutil.RemoveFinalizer(s.cluster, clusterv1.ClusterFinalizer)
	return reconcile.Result{}, nil
}

func (r *Reconciler) workersGone(ctx context.Context, s *state) (bool, error) {
	w := s.workers
	left := len(w.all) - len(w.plane)
	if len(w.deployments)+len(w.sets)+left == 0 {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForWorkersDeletionReason,
		fmt.Sprintf("Waiting for %d MachineDeployments, %d MachineSets and %d worker Machines to be deleted", len(w.deployments), len(w.sets), left)}
	var errs []error
	for _, md := range w.deployments {
		errs = append(errs, r.delete(ctx, "MachineDeployment", md))
	}
	for _, set := range w.sets {
		errs = append(errs, r.delete(ctx, "MachineSet", set))
	}
	for _, m := range w.machines {
		errs = append(errs, r.delete(ctx, "Machine", m))
	}
	return false, kerrors.NewAggregate(errs)
}

func (r *Reconciler) controlPlaneGone(ctx context.Context, s *state) (bool, error) {
	if !s.cluster.Spec.ControlPlaneRef.IsDefined() && len(s.workers.plane) == 0 {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason,
		fmt.Sprintf("Waiting for the control plane and %d of its Machines to be deleted", len(s.workers.plane))}
	if s.controlPlane != nil {
		return false, r.delete(ctx, s.controlPlane.GetKind(), s.controlPlane.Unstructured)
	}
	if s.cluster.Spec.ControlPlaneRef.IsDefined() && !apierrors.IsNotFound(s.planeErr) && !isRefused(s.planeErr) {
		return false, nil // it may be there, and then its Machines are its own business
	}
	var errs []error
	for _, m := range s.workers.plane {
		errs = append(errs, r.delete(ctx, "Machine", m))
	}
	return len(s.workers.plane) == 0, kerrors.NewAggregate(errs)
}

func (r *Reconciler) infrastructureGone(ctx context.Context, s *state) (bool, error) {
	if !s.cluster.Spec.InfrastructureRef.IsDefined() || apierrors.IsNotFound(s.infraErr) {
		return true, nil
	}
	s.deletion = progress{clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason,
		fmt.Sprintf("Waiting for %s %q to be deleted", s.cluster.Spec.InfrastructureRef.Kind, s.cluster.Spec.InfrastructureRef.Name)}
	if isRefused(s.infraErr) {
		return true, nil // it is none of the Cluster's, and stays
	}
	if s.infra == nil {
		return false, nil
	}
	return false, r.delete(ctx, s.infra.GetKind(), s.infra.Unstructured)
}

// delete deletes an object unless that is under way, or the object is another manager's.
func (r *Reconciler) delete(ctx context.Context, kind string, object client.Object) error {
	if object.GetDeletionTimestamp() != nil || r.watch.Foreign(object) {
		return nil
	}
	uid := object.GetUID()
	if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting %s %q: %w", kind, object.GetName(), err))
	}
	ctrl.LoggerFrom(ctx).Info("deleted "+kind, kind, klog.KObj(object))
	return nil
}

// A foreignError is the refusal of a provider's object that belongs to something other than
// the Cluster that refers to it.
type foreignError struct{ kind, name, owner string }

// Error names the object, whose it is, and the ways out.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %q belongs to %s: name an object that is this Cluster's alone, or delete this Cluster, which leaves %s %q as it is",
		e.kind, e.name, e.owner, e.kind, e.name)
}

// isRefused reports whether the object behind a reference is not this Cluster's to touch.
func isRefused(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign) || contract.IsInvalidReference(err)
}

// adopt puts the Cluster's owner reference and label on its infrastructure or control plane
// object, unless they are there. An object that belongs to something else is left alone: the
// error is a foreignError then.
func (r *Reconciler) adopt(ctx context.Context, cluster *clusterv1.Cluster, object *unstructured.Unstructured) error {
	owned := false
	for _, reference := range object.GetOwnerReferences() {
		group, _, _ := strings.Cut(reference.APIVersion, "/")
		another := reference.Kind == "Cluster" && group == clusterv1.GroupVersion.Group
		if reference.UID != cluster.UID && (another || (reference.Controller != nil && *reference.Controller)) {
			return &foreignError{object.GetKind(), object.GetName(), fmt.Sprintf("%s %q", reference.Kind, reference.Name)}
		}
		owned = owned || reference.UID == cluster.UID
	}
	if owned && object.GetLabels()[clusterv1.ClusterNameLabel] == cluster.Name {
		return nil
	}
	references := object.GetOwnerReferences()
	if !owned {
		references = append(references, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		})
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(),
		"ownerReferences": references,
		"labels":          map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
	}})
	if err != nil {
		return fmt.Errorf("encoding owner patch: %w", err)
	}
	if err := r.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("adopting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("adopted provider object", object.GetKind(), klog.KObj(object))
	return nil
}
