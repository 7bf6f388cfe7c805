// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// recording notes what is added to be due after the window; any other use of the queue is a nil dereference.
type recording struct {
	queue
	added []string
}

func (r *recording) AddAfter(request reconcile.Request, after time.Duration) {
	if after == Window {
		r.added = append(r.added, request.String())
	}
}

func owned(kind, name string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	if kind != "" {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "c"}, {Kind: kind, Name: name, Controller: new(true)}}
	}
	return m
}

func TestControllerIsReconciled(t *testing.T) {
	t.Parallel()
	h := Controller("MachineSet")
	for name, test := range map[string]struct {
		happen func(context.Context, queue)
		want   []string
	}{
		"on creation": {func(ctx context.Context, q queue) {
			h.Create(ctx, event.CreateEvent{Object: owned("MachineSet", "a")}, q)
		}, []string{"ns/a"}},
		"on deletion": {func(ctx context.Context, q queue) {
			h.Delete(ctx, event.DeleteEvent{Object: owned("MachineSet", "a")}, q)
		}, []string{"ns/a"}},
		"on a generic event": {func(ctx context.Context, q queue) {
			h.Generic(ctx, event.GenericEvent{Object: owned("MachineSet", "a")}, q)
		}, []string{"ns/a"}},
		"not for a controller of another kind":   {func(ctx context.Context, q queue) { h.Create(ctx, event.CreateEvent{Object: owned("Other", "a")}, q) }, nil},
		"not for an object without a controller": {func(ctx context.Context, q queue) { h.Create(ctx, event.CreateEvent{Object: owned("", "")}, q) }, nil},
		"both on a change of hands": {func(ctx context.Context, q queue) {
			h.Update(ctx, event.UpdateEvent{ObjectOld: owned("MachineSet", "a"), ObjectNew: owned("MachineSet", "b")}, q)
		}, []string{"ns/a", "ns/b"}},
		"when it loses an object": {func(ctx context.Context, q queue) {
			h.Update(ctx, event.UpdateEvent{ObjectOld: owned("MachineSet", "a"), ObjectNew: owned("", "")}, q)
		}, []string{"ns/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &recording{}
			test.happen(t.Context(), q)
			if diff := cmp.Diff(test.want, q.added); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The queue merges what is due at the same time, so a series is one request if every event of
// it adds the same request, each after the whole window and none at once.
func TestASeriesOfEventsIsOneRequest(t *testing.T) {
	t.Parallel()
	q := &recording{}
	h := Map(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "all"}}}
	})
	for range 10 {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: owned("", ""), ObjectNew: owned("", "")}, q)
	}
	if len(q.added) != 20 || len(slices.Compact(q.added)) != 1 {
		t.Errorf("added %v", q.added)
	}
}
