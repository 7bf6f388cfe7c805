// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// refusalMemory is how long a kind that could not be watched is not tried again, so that
// a thousand Machines of one misconfigured provider cost one request, not a thousand.
const refusalMemory = 10 * time.Second

// A Starter starts a source of events; every controller is one.
type Starter interface {
	Watch(source.Source) error
}

// Watcher starts a watch on a provider kind the first time it is needed. Every change of such an
// object triggers a reconcile of its owner.
type Watcher struct {
	// Live reads from the API server itself whether the kind can be listed, before a watch on it is
	// started: an informer without permission would block its readers instead.
	Live client.Reader
	// Cache is where the watched objects end up.
	Cache cache.Cache
	// Controller is the controller whose objects own the provider's objects.
	Controller Starter
	// Owner maps a provider's object to the requests of its owners.
	Owner handler.TypedEventHandler[*unstructured.Unstructured, reconcile.Request]
	Clock clock.PassiveClock

	mu      sync.Mutex
	started map[schema.GroupVersionKind]bool
	refused map[schema.GroupVersionKind]refusal
}

type refusal struct {
	err error
	at  time.Time
}

// Ensure starts the watch on gvk unless it runs. It returns [ForbiddenError] or
// [MissingCRDError] when the kind cannot be listed.
func (w *Watcher) Ensure(ctx context.Context, gvk schema.GroupVersionKind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started[gvk] {
		return nil
	}
	if last, ok := w.refused[gvk]; ok && w.Clock.Since(last.at) < refusalMemory {
		return last.err
	}
	if err := w.listable(ctx, gvk); err != nil {
		if w.refused == nil {
			w.refused = map[schema.GroupVersionKind]refusal{}
		}
		w.refused[gvk] = refusal{err: err, at: w.Clock.Now()}
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := w.Controller.Watch(source.Kind(w.Cache, object, w.Owner)); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	if w.started == nil {
		w.started = map[schema.GroupVersionKind]bool{}
	}
	w.started[gvk] = true
	return nil
}

func (w *Watcher) listable(ctx context.Context, gvk schema.GroupVersionKind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := w.Live.List(ctx, list, client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		return &ForbiddenError{GroupKind: gvk.GroupKind(), Err: err}
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return &MissingCRDError{GroupKind: gvk.GroupKind(), CRDName: CRDName(gvk.GroupKind())}
	case err != nil:
		return fmt.Errorf("listing %s: %w", gvk.GroupKind(), err)
	}
	return nil
}
