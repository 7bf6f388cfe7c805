// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package results has what reconciles return: when to reconcile again, and which errors are none.
package results

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/requesterror"
)

// conflictRetry is how soon a write is tried again after a conflict.
const conflictRetry = time.Second

// IgnoreNotFoundOrConflict returns nil for the errors after which an event is certain to come: another client has written
// or deleted the object. It is for objects all of whose changes are watched.
func IgnoreNotFoundOrConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// RequeueOnConflict is IgnoreNotFoundOrConflict for objects not all of whose changes are watched: after a conflict it
// reconciles again by itself.
func RequeueOnConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, IgnoreNotFoundOrConflict(err)
}

// IsRefused reports whether the API server will refuse the same request every time, until a person changes the object, an
// admission policy or a permission.
func IsRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// Refusal returns the message, for a condition, of the first of the errors for which IsRefused is true; empty if there is none.
func Refusal(err error) string {
	all := []error{err}
	if aggregate, is := errors.AsType[kerrors.Aggregate](err); is {
		all = kerrors.Flatten(aggregate).Errors()
	}
	for _, each := range all {
		if IsRefused(each) {
			return requesterror.Truncate(each.Error())
		}
	}
	return ""
}

// Earliest merges two results into the one that reconciles first.
func Earliest(a, b reconcile.Result) reconcile.Result {
	switch {
	case a.RequeueAfter == 0:
		return b
	case b.RequeueAfter == 0:
		return a
	}
	return reconcile.Result{RequeueAfter: min(a.RequeueAfter, b.RequeueAfter)}
}
