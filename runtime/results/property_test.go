// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestEarliestIsTheSameInAnyOrder merges results in pairs, in each order and grouping; one that waits for events changes nothing.
func TestEarliestIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	var all []reconcile.Result
	for _, after := range []time.Duration{0, 1, time.Second, time.Minute, time.Hour} {
		all = append(all, reconcile.Result{RequeueAfter: after})
	}
	for _, a := range all {
		if got := Earliest(a, reconcile.Result{}); got != a {
			t.Errorf("%v with none is %v", a, got)
		}
		for _, b := range all {
			if Earliest(a, b) != Earliest(b, a) {
				t.Errorf("%v and %v are merged otherwise the other way round", a, b)
			}
			for _, c := range all {
				if Earliest(Earliest(a, b), c) != Earliest(a, Earliest(b, c)) {
					t.Errorf("%v, %v and %v are merged otherwise in another grouping", a, b, c)
				}
			}
		}
	}
}

// TestWhatIsIgnoredIsAnsweredByAnEvent has the errors of writes, as they are and as callers wrap them; of several at once, one that
// must be seen is not lost behind one that is ignored.
func TestWhatIsIgnoredIsAnsweredByAnEvent(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	conflict, gone := apierrors.NewConflict(nodes, "n", errors.New("old")), apierrors.NewNotFound(nodes, "n")
	for name, test := range map[string]struct {
		err     error
		ignored bool
	}{
		"a conflict":            {conflict, true},
		"an object that left":   {gone, true},
		"a wrapped conflict":    {fmt.Errorf("writing: %w", conflict), true},
		"one that exists":       {apierrors.NewAlreadyExists(nodes, "n"), false},
		"a refusal":             {apierrors.NewForbidden(nodes, "n", nil), false},
		"a namespace that ends": {apierrors.NewForbidden(nodes, "n", errors.New("because it is being terminated")), false},
		"an end of the process": {context.Canceled, false},
		"several":               {kerrors.NewAggregate([]error{errors.New("reset"), errors.New("refused")}), false},
	} {
		if got := IgnoreNotFoundOrConflict(test.err); (got == nil) != test.ignored || got != nil && got.Error() != test.err.Error() {
			t.Errorf("%s: got %v", name, got)
		}
		result, err := RequeueOnConflict(test.err)
		if again := apierrors.IsConflict(test.err); (result.RequeueAfter == conflictRetry) != again || (err == nil) != test.ignored {
			t.Errorf("%s: got %v, %v", name, result, err)
		}
	}
}
