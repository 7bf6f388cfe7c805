// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/results"
)

// Reasons of conditions that mirror a provider's object.
const (
	// ForeignObjectReason means that a referenced object belongs to something other than the object that refers to it.
	ForeignObjectReason = droverpolicyv1.ForeignObjectReason
	// InvalidReferenceReason means that a reference names a kind that is not allowed there.
	InvalidReferenceReason = droverpolicyv1.InvalidReferenceReason
)

// RetryPeriod is how often an object that should exist, and does not, is read again.
const RetryPeriod = 30 * time.Second

// ReadFailed decides what a reconcile does about a provider's object that could not be read or adopted. The creation of a
// missing one triggers no reconcile, since only owned objects do, so it is read again from time to time while it is needed.
func ReadFailed(err error, needed bool) (reconcile.Result, error) {
	switch {
	case apierrors.IsNotFound(err) && needed, contract.IsMisconfigured(err), IsRefused(err):
		return reconcile.Result{RequeueAfter: RetryPeriod}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return results.RequeueOnConflict(err) // an adoption that conflicts with a write of the provider is tried again
}

// UnreadableCondition is the condition for a provider's object that could not be read, or that is refused. An object that
// has existed is reported as deleted, any other as not existing.
func UnreadableCondition(ref clusterv1.ContractVersionedObjectReference, err error, existed bool) metav1.Condition {
	switch {
	case contract.IsInvalidReference(err):
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: InvalidReferenceReason, Message: err.Error()}
	case IsRefused(err):
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ForeignObjectReason, Message: err.Error()}
	case err != nil && !apierrors.IsNotFound(err):
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: clusterv1.InternalErrorReason, Message: err.Error()}
	case existed:
		return metav1.Condition{
			Status:  metav1.ConditionFalse,
			Reason:  clusterv1.ObjectDeletedReason,
			Message: fmt.Sprintf("%s %q has been deleted", ref.Kind, ref.Name),
		}
	}
	return metav1.Condition{
		Status:  metav1.ConditionFalse,
		Reason:  clusterv1.ObjectDoesNotExistReason,
		Message: fmt.Sprintf("%s %q does not exist", ref.Kind, ref.Name),
	}
}
