// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// wire is between the Drainer and the real API server: it counts requests and can lose or delay them.
type wire struct {
	client.WithWatch
	inner client.WithWatch

	mu     sync.Mutex
	byVerb map[string]int
	// fault is called before each request, "list Pod" or "evict name"; an error is the answer.
	fault func(ctx context.Context, verb, name string) error
}

func counting(inner client.WithWatch) *wire {
	return faulty(inner, func(context.Context, string, string) error { return nil })
}

// before does something just before the first such request.
func before(inner client.WithWatch, verb string, do func()) *wire {
	var once sync.Once
	return faulty(inner, func(_ context.Context, got, _ string) error {
		if got == verb {
			once.Do(do)
		}
		return nil
	})
}

func faulty(inner client.WithWatch, fault func(ctx context.Context, verb, name string) error) *wire {
	w := &wire{inner: inner, byVerb: map[string]int{}, fault: fault}
	w.WithWatch = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := w.pass(ctx, "get "+w.kind(obj), key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := w.pass(ctx, "list "+w.kind(list), ""); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := w.pass(ctx, "delete "+w.kind(obj), obj.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := w.pass(ctx, "patch "+w.kind(obj), obj.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
			if err := w.pass(ctx, "evict", obj.GetName()); err != nil {
				return err
			}
			return c.SubResource(sub).Create(ctx, obj, body, opts...)
		},
	})
	return w
}

func (w *wire) pass(ctx context.Context, verb, name string) error {
	w.mu.Lock()
	w.byVerb[verb]++
	w.mu.Unlock()
	return w.fault(ctx, verb, name)
}

func (w *wire) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.byVerb)
}

func (w *wire) kind(obj runtime.Object) string {
	gvk, err := apiutil.GVKForObject(obj, w.inner.Scheme())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(gvk.Kind, "List")
}
