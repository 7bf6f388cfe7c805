// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
)

func TestRetryRefused(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m", errors.New("it is protected"))
	for name, test := range map[string]struct {
		err            error
		retried, fails bool
	}{
		"it soon tries again what is refused":              {refused, true, false},
		"it soon tries again what is refused among others": {kerrors.NewAggregate([]error{errors.New("reset"), refused}), true, false},
		"it leaves other errors to the back-off":           {errors.New("reset"), false, true},
		"it does nothing without an error":                 {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := RetryRefused(t.Context(), test.err)
			if retried := result.RequeueAfter == RetryPeriod; retried != test.retried || (err != nil) != test.fails {
				t.Errorf("got %v, %v", result, err)
			}
		})
	}
}
