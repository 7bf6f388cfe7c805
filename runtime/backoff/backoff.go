// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package backoff has the rate limiter of controllers whose reconciles may be postponed, as by package fairshare. It decides
// when a failed reconcile is tried again, not which ones are postponed, nor for how long.
package backoff

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// minDelay and maxDelay bound the time between a failure and the next attempt, as controller-runtime does.
const minDelay, maxDelay = 5 * time.Millisecond, 1000 * time.Second

// Limiter doubles the delay with each reconcile of an object that fails, until one succeeds. controller-runtime takes a
// reconcile that returns when to come back for one that has succeeded: with its own limiter, an object that fails and is
// postponed in turns would be tried again as soon as that allows, for ever. Each controller has a Limiter of its own. The nil
// Limiter only postpones.
type Limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]

	// postponed are the requests of which the last reconcile was postponed, until the controller reports its end.
	postponed sync.Map
}

// NewLimiter returns a limiter that knows of no failure.
func NewLimiter() *Limiter {
	return &Limiter{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay)}
}

// Options returns the options of a controller with the limiter.
func (l *Limiter) Options(o controller.Options) controller.Options {
	o.RateLimiter = l
	return o
}

// Postpone is the result of a reconcile that has done nothing yet, and is to do it after the given time, which must not be
// zero: the failures before it still count.
func (l *Limiter) Postpone(object client.Object, after time.Duration) (reconcile.Result, error) {
	if l != nil {
		l.postponed.Store(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}, struct{}{})
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// Forget ends the failures of a request, unless its reconcile was postponed. The controller calls it after each one without
// an error.
func (l *Limiter) Forget(request reconcile.Request) {
	if _, postponed := l.postponed.LoadAndDelete(request); !postponed {
		l.TypedRateLimiter.Forget(request)
	}
}
