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
