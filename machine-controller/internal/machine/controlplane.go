// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
)

// apiServerGone are the reasons that remain once an API server was deleted: it does not answer, and the Secret that belonged
// to it is gone. One that refuses the kubeconfig, or whose Nodes are too many, exists.
var apiServerGone = []workload.Reason{workload.ReasonUnreachable, workload.ReasonKubeconfigMissing}

// controlPlaneDeleting reports whether the control plane that the Cluster refers to is deleted, and
// every Node with it: with its Cluster, or alone. An externally managed control plane, which has no
// reference, stays. One whose object does not exist counts as deleted only if no API server answers
// at the endpoint. One that cannot be read does not count as deleted, nor does the object of another Cluster: the cluster
// controller makes its Cluster an owner of the object, or refuses it.
func (r *Reconciler) controlPlaneDeleting(ctx context.Context, s *state) (bool, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return false, nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		return true, nil
	}
	controlPlane, err := r.Contract.ControlPlane(ctx, s.machine.Namespace, ref)
	switch {
	case apierrors.IsNotFound(err):
		return !s.connection.Connected && slices.Contains(apiServerGone, s.connection.Reason), nil
	case contract.IsMisconfigured(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return controlPlane.GetDeletionTimestamp() != nil && contract.HasOwner(controlPlane, s.cluster.UID), nil
}

// controlPlaneRetry is when to read the control plane again while the workload cluster does
// not answer: its deletion triggers a reconcile of the Cluster, but not of Machines.
func controlPlaneRetry(s *state) reconcile.Result {
	if s.connection.Connected || !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: ownership.RetryPeriod}
}
