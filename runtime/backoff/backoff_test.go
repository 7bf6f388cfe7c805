// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/backoff"
)

func object(name string) (*corev1.Node, reconcile.Request) {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	return o, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

func TestDelayDoublesUntilAReconcileSucceeds(t *testing.T) {
	t.Parallel()
	l := backoff.NewLimiter()
	if options := l.Options(controller.Options{MaxConcurrentReconciles: 3}); options.RateLimiter != l || options.MaxConcurrentReconciles != 3 {
		t.Errorf("the options of a controller are %+v", options)
	}
	a, requestA := object("a")
	_, requestB := object("b")
	for i, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
		if got := l.When(requestA); got != want {
			t.Errorf("failure %d is tried again after %s, want %s", i, got, want)
		}
		result, err := l.Postpone(a, time.Second)
		if err != nil || result.RequeueAfter != time.Second {
			t.Errorf("it is postponed by %v, %v; want 1s", result, err)
		}
		l.Forget(requestA) // as the controller does after a reconcile without an error
		l.Forget(requestB)
	}
	l.Forget(requestA)
	if got := l.When(requestA); got != 5*time.Millisecond {
		t.Errorf("the first failure after a success is tried again after %s", got)
	}
}

func TestNilLimiterPostpones(t *testing.T) {
	t.Parallel()
	a, _ := object("a")
	if result, err := (*backoff.Limiter)(nil).Postpone(a, time.Second); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("it is postponed by %v, %v; want 1s", result, err)
	}
}
