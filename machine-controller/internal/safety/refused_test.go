// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
)

func TestRetryRefused(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m", errors.New("it is protected"))
	for name, test := range map[string]struct {
		err   error
		after time.Duration
		fails bool
	}{
		"it soon tries again what is refused":              {refused, RetryPeriod, false},
		"it soon tries again what is refused among others": {kerrors.NewAggregate([]error{errors.New("reset"), refused}), RetryPeriod, false},
		"it tries many writes again later":                 {kerrors.NewAggregate(slices.Repeat([]error{refused}, 1000)), 100 * time.Second, false},
		"it leaves other errors to the back-off":           {errors.New("reset"), 0, true},
		"it does nothing without an error":                 {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := RetryRefused(t.Context(), test.err)
			if result.RequeueAfter != test.after || (err != nil) != test.fails {
				t.Errorf("got %v, %v", result, err)
			}
		})
	}
}
