// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/runtime/expiring"
)

// refusalMemory is how long a kind that could not be watched is not tried again, so that
// a thousand Machines of one misconfigured provider cost one request, not a thousand.
const refusalMemory = 10 * time.Second

// maxRefusals is how many kinds that could not be watched are stored.
const maxRefusals = 1000

// A Starter starts a source of events; every controller is one.
type Starter interface {
	Watch(source.Source) error
}

// Watcher starts a watch on a provider kind the first time it is needed. Every change of such an
// object triggers the reconciles that Owner, or Metadata, maps it to.
type Watcher struct {
	// Live reads from the API server itself whether the kind can be listed, before a watch on it is
	// started: an informer without permission would block its readers instead.
	Live client.Reader
	// Namespace is the only one that the manager reconciles and may read; "" is all.
	Namespace string
	// Cache is where the watched objects end up.
	Cache cache.Cache
	// Controller is the controller whose objects own, or refer to, the provider's objects.
	Controller Starter
	// Owner maps a provider's object to the requests of its owners.
	Owner handler.TypedEventHandler[*unstructured.Unstructured, reconcile.Request]
	// Metadata, if it is set, takes the place of Owner: nothing but the metadata of the objects is watched and cached.
	Metadata handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request]
	Clock    clock.PassiveClock

	once  sync.Once
	calls singleflight.Group
	// started has the kinds that exist. A reference can name others, in any number and spelling: these are in refused,
	// which is bounded.
	started sync.Map
	refused expiring.Map[schema.GroupVersionKind, error]
}

// Ensure starts the watch on gvk unless it runs. It returns [ForbiddenError] or
// [MissingCRDError] when the kind cannot be listed.
func (w *Watcher) Ensure(ctx context.Context, gvk schema.GroupVersionKind) error {
	w.once.Do(func() { w.refused.Clock, w.refused.TTL, w.refused.Max = w.Clock, refusalMemory, maxRefusals })
	// A request for one kind does not delay the readers of another.
	_, err, _ := w.calls.Do(gvk.String(), func() (any, error) { return nil, w.ensure(ctx, gvk) })
	return err
}

func (w *Watcher) ensure(ctx context.Context, gvk schema.GroupVersionKind) error {
	if _, started := w.started.Load(gvk); started {
		return nil
	}
	if err, refused := w.refused.Get(gvk); refused {
		return err
	}
	if err := w.listable(ctx, gvk); err != nil {
		w.refused.Set(gvk, err)
		return err
	}
	if err := w.Controller.Watch(w.source(gvk)); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	w.started.Store(gvk, struct{}{})
	return nil
}

func (w *Watcher) source(gvk schema.GroupVersionKind) source.Source {
	if w.Metadata != nil {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(gvk)
		return source.Kind(w.Cache, object, w.Metadata)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	return source.Kind(w.Cache, object, w.Owner)
}

func (w *Watcher) listable(ctx context.Context, gvk schema.GroupVersionKind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := w.Live.List(ctx, list, client.InNamespace(w.Namespace), client.Limit(1))
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
