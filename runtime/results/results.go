// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package results has what reconciles return: when to reconcile again, and which errors are none.
package results

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
