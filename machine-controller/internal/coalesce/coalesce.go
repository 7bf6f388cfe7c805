// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package coalesce merges the events of many objects into one reconcile of their owner: a thousand Machines that change
// within a moment are one reconcile of their MachineSet. It decides when the owner is reconciled, not which owner it is;
// controllers use it for the objects below their own.
package coalesce

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Window is how long the first event of a series waits for the others.
const Window = 200 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Controller enqueues the controller, of the given kind, of each object that changes, once per window.
func Controller(kind string) handler.EventHandler {
	return Map(func(_ context.Context, object client.Object) []reconcile.Request {
		owner := metav1.GetControllerOfNoCopy(object)
		if owner == nil || owner.Kind != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}}}
	})
}

// Map enqueues the requests that the function returns, once per window. An update enqueues those of the object
// as it was before, too.
func Map(to handler.MapFunc) handler.EventHandler {
	enqueue := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, object := range objects {
			for _, request := range to(ctx, object) {
				q.AddAfter(request, Window)
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { enqueue(ctx, q, e.Object) },
	}
}
