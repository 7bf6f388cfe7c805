// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRequestsShareTheNextList: a request during a list gets one that begins afterwards, which is shared by all of them
// and contains what was attached meanwhile.
func TestRequestsShareTheNextList(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	held := interceptor.NewClient(s, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			began <- struct{}{}
			<-goOn
			return err
		},
	})
	var r listBatches
	req := Request{Cluster: types.NamespacedName{Name: "busy"}, Client: held, Node: s.node.Name}
	first := r.join(t.Context(), req, 500)
	<-began
	s.attachment("new", s.node.Name, true)
	ctx, giveUp := context.WithCancel(t.Context())
	second := r.join(ctx, req, 500)
	giveUp()
	if second == first {
		t.Fatal("a question shares a list that began before it")
	}
	for range 3 {
		if r.join(t.Context(), req, 500) != second {
			t.Fatal("questions that wait for the same list do not share it")
		}
	}
	elsewhere := r.join(t.Context(), Request{Cluster: types.NamespacedName{Name: "idle"}, Client: s, Node: s.node.Name}, 500)
	<-elsewhere.done // although the busy one still answers

	goOn <- struct{}{}
	<-first.done
	<-began
	goOn <- struct{}{}
	<-second.done
	if first.err != nil || len(first.attached[s.node.Name]) != 0 {
		t.Errorf("the first list has %v, error %v", first.attached, first.err)
	}
	if second.err != nil || len(second.attached[s.node.Name]) != 1 {
		t.Errorf("the second list misses what was attached before it began: %v, error %v", second.attached, second.err)
	}
}

func TestACancelledRequestDoesNotWait(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	goOn := make(chan struct{})
	held := interceptor.NewClient(s, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			<-goOn
			return nil
		},
	})
	defer close(goOn)
	enough := errors.New("enough")
	ctx, giveUp := context.WithCancelCause(t.Context())
	giveUp(enough)
	if _, err := (&listBatches{}).attached(ctx, Request{Client: held, Node: s.node.Name}, 500); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}
