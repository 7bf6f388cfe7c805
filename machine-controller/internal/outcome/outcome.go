// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package outcome says what a reconcile ends with: when to look again, and which errors are
// none. It holds no state and knows no kind; every controller ends with it.
package outcome

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Settled drops the errors after which a fresh event is certain to come: somebody else has
// just written or removed the object.
func Settled(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Sooner merges two results: whatever has to be looked at first.
func Sooner(a, b reconcile.Result) reconcile.Result {
	switch {
	case a.RequeueAfter == 0:
		return b
	case b.RequeueAfter == 0:
		return a
	}
	return reconcile.Result{RequeueAfter: min(a.RequeueAfter, b.RequeueAfter)}
}
