// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drover.io/machine-controller/internal/contract"
)

func TestReadFailed(t *testing.T) {
	t.Parallel()
	notFound := apierrors.NewNotFound(corev1.Resource("things"), "x")
	conflict := apierrors.NewConflict(corev1.Resource("things"), "x", errors.New("modified"))
	for name, test := range map[string]struct {
		err    error
		needed bool
		after  time.Duration
		fails  bool
	}{
		"reads a missing object again while it is needed": {notFound, true, RetryPeriod, false},
		"does not wait for a missing object otherwise":    {notFound, false, 0, false},
		"reads an object again that needs a correction":   {&contract.MissingLabelError{}, false, RetryPeriod, false},
		"reads a foreign object again":                    {&ForeignError{}, false, RetryPeriod, false},
		"adopts again after a conflict":                   {fmt.Errorf("adopting: %w", conflict), true, time.Second, false},
		"returns any other error":                         {errors.New("boom"), true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := ReadFailed(test.err, test.needed)
			if result.RequeueAfter != test.after || (err != nil) != test.fails {
				t.Errorf("result %v, error %v", result, err)
			}
		})
	}
}
