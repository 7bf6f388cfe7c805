// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/workload"
)

// planeGoes finds out whether the control plane that the Cluster refers to is going away, and
// every Node with it: with its Cluster, or alone. Somebody else's control plane, without a
// reference, stays. One that is not there any more counts as gone only if nobody answers in
// its place; of one that cannot be read nothing is assumed.
func (r *Reconciler) planeGoes(ctx context.Context, s *state) (bool, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return false, nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		return true, nil
	}
	plane, err := r.Contract.ControlPlane(ctx, s.machine.Namespace, ref)
	switch {
	case apierrors.IsNotFound(err):
		return !s.connection.Connected && s.connection.Reason != workload.ReasonConnecting, nil
	case contract.IsMisconfigured(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return plane.GetDeletionTimestamp() != nil, nil
}

// planeAgain says when to look for the control plane again while the workload cluster does
// not answer: that it goes wakes its Cluster, but no Machine.
func planeAgain(s *state) reconcile.Result {
	if s.connection.Connected || !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: absentRetry}
}
