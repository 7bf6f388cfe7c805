// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
)

// outcome is what the phases came to.
type outcome struct {
	result ctrl.Result
	err    error
}

// save writes what changed: at most one patch of the object and one of its status, then tells the events
// that follow from the difference.
func (r *Reconciler[M, C]) save(ctx context.Context, before M, job *job[M, C], came outcome) (ctrl.Result, error) {
	err := r.write(ctx, before, job.machine)
	switch {
	case apierrors.IsConflict(err):
		// The cache was behind; everything is found again from the newer object.
		return ctrl.Result{RequeueAfter: time.Second}, came.err
	case err != nil:
		return ctrl.Result{}, kerrors.NewAggregate([]error{came.err, err})
	}
	if job.fresh {
		r.quiet.add(job.machine.GetUID())
	}
	r.announce(ctx, before, job.machine)
	return came.result, came.err
}

func (r *Reconciler[M, C]) write(ctx context.Context, before, after M) error {
	status := after.GetStatus().DeepCopy()
	if changed(before, after) {
		patched := after.DeepCopyObject().(M)
		*patched.GetStatus() = *before.GetStatus().DeepCopy()
		base := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, patched, base); err != nil {
			return client.IgnoreNotFound(err)
		}
		after.SetResourceVersion(patched.GetResourceVersion())
	}
	if gone(after) || equality.Semantic.DeepEqual(before.GetStatus(), status) {
		return nil
	}
	base := after.DeepCopyObject().(M)
	*base.GetStatus() = *before.GetStatus().DeepCopy()
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, after, client.MergeFrom(base)))
}

// changed reports whether anything but the status differs.
func changed[M driver.Machine](before, after M) bool {
	return before.GetProviderID() != after.GetProviderID() ||
		!equality.Semantic.DeepEqual(before.GetFinalizers(), after.GetFinalizers()) ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations())
}

// gone reports whether the API server forgets the object once its finalizers are written.
func gone[M driver.Machine](machine M) bool {
	return !machine.GetDeletionTimestamp().IsZero() && len(machine.GetFinalizers()) == 0
}
