// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetried(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	for name, test := range map[string]struct {
		err          error
		again, fails bool
	}{
		"is at rest after a success":           {nil, false, false},
		"comes back after a conflict":          {fmt.Errorf("writing: %w", apierrors.NewConflict(nodes, "n", errors.New("old"))), true, false},
		"is at rest where the object is gone":  {apierrors.NewNotFound(nodes, "n"), false, false},
		"leaves other errors to the workqueue": {errors.New("other"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := RequeueOnConflict(test.err)
			if again := result.RequeueAfter > 0; again != test.again || (err != nil) != test.fails {
				t.Errorf("got %v, %v", result, err)
			}
		})
	}
}

func TestIsRefused(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"is a request that a policy or permission forbids":     {fmt.Errorf("writing: %w", apierrors.NewForbidden(nodes, "n", errors.New("no"))), true},
		"is a request of an object that is not valid":          {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "n", nil), true},
		"is a request that a webhook denies without a code":    {apierrors.NewBadRequest("denied"), true},
		"is not a request that another write has preceded":     {apierrors.NewConflict(nodes, "n", errors.New("old")), false},
		"is not a request that failed in the API server":       {apierrors.NewInternalError(errors.New("webhook is down")), false},
		"is not a request to an API server that is overloaded": {apierrors.NewTooManyRequests("busy", 1), false},
		"is not a request without an answer":                   {errors.New("reset"), false},
		"is not one that was accepted":                         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := IsRefused(test.err); got != test.want {
				t.Errorf("refused: %t", got)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("deleting: %w", apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no")))
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"is that of one request":         {refused, `deleting: nodes "n" is forbidden: no`},
		"is the first of several":        {kerrors.NewAggregate([]error{errors.New("reset"), kerrors.NewAggregate([]error{refused})}), `deleting: nodes "n" is forbidden: no`},
		"is none where only others fail": {kerrors.NewAggregate([]error{errors.New("reset")}), ""},
		"is none without an error":       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Refusal(test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEarliest(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) reconcile.Result { return reconcile.Result{RequeueAfter: d} }
	for name, test := range map[string]struct{ a, b, want reconcile.Result }{
		"is none of two that wait for events": {at(0), at(0), at(0)},
		"is the only one with a time":         {at(0), at(time.Second), at(time.Second)},
		"is the other one with a time":        {at(time.Second), at(0), at(time.Second)},
		"is the shorter of two":               {at(time.Minute), at(time.Second), at(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Earliest(test.a, test.b); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
