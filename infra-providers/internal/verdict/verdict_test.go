// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/verdict"
)

func TestEachKindHasItsVerdict(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for want, err := range map[verdict.Verdict]error{
		{Reason: verdict.InvalidConfiguration, Terminal: true}:                   &driver.InvalidConfigurationError{Field: "spec.x", Err: cause},
		{Reason: verdict.InstanceNotOwned, Terminal: true}:                       &driver.NotOwnedError{},
		{Reason: verdict.Unauthorized, Retry: time.Minute}:                       &driver.UnauthorizedError{Err: cause},
		{Reason: verdict.QuotaExceeded, Retry: 3 * time.Minute}:                  &driver.QuotaExceededError{Err: cause},
		{Reason: verdict.InsufficientCapacity, Retry: 2 * time.Minute}:           &driver.InsufficientCapacityError{Err: cause},
		{Reason: verdict.RateLimited, Retry: 17 * time.Second, Passing: true}:    &driver.RateLimitedError{RetryAfter: 17 * time.Second, Err: cause},
		{Reason: verdict.RateLimited, Retry: 5 * time.Second, Passing: true}:     &driver.RateLimitedError{Err: cause},
		{Reason: verdict.InstancePending, Retry: 5 * time.Second, Passing: true}: &driver.UnfinishedError{Err: cause},
		{Reason: verdict.CloudError, Passing: true}:                              cause,
	} {
		got := verdict.Of(fmt.Errorf("asking: %w", err))
		got.Advice = ""
		if got != want {
			t.Errorf("%v: got %+v, want %+v", err, got, want)
		}
	}
}
