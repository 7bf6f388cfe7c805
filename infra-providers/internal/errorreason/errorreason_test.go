// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package errorreason_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
)

func TestReasonOfEachError(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for want, err := range map[errorreason.Problem]error{
		{Reason: infrav1.InvalidConfigurationReason, Terminal: true}:                     &driver.InvalidConfigurationError{Field: "spec.x", Err: cause},
		{Reason: infrav1.InstanceNotOwnedReason, Terminal: true}:                         &driver.NotOwnedError{Found: driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{Namespace: "n", Name: "c"}}},
		{Reason: infrav1.InstanceTagsMissingReason, Retry: time.Minute}:                  &driver.NotOwnedError{},
		{Reason: infrav1.UnauthorizedReason, Retry: time.Minute}:                         &driver.UnauthorizedError{Err: cause},
		{Reason: infrav1.QuotaExceededReason, Retry: 3 * time.Minute}:                    &driver.QuotaExceededError{Err: cause},
		{Reason: infrav1.InsufficientCapacityReason, Retry: 2 * time.Minute}:             &driver.InsufficientCapacityError{Err: cause},
		{Reason: infrav1.RateLimitedReason, Retry: 17 * time.Second, Transient: true}:    &driver.RateLimitedError{RetryAfter: 17 * time.Second, Err: cause},
		{Reason: infrav1.RateLimitedReason, Retry: 5 * time.Second, Transient: true}:     &driver.RateLimitedError{Err: cause},
		{Reason: infrav1.InstancePendingReason, Retry: 5 * time.Second, Transient: true}: &driver.UnfinishedError{Err: cause},
		{Reason: infrav1.CloudErrorReason, Transient: true}:                              cause,
	} {
		got := errorreason.Classify(fmt.Errorf("requesting: %w", err))
		got.Advice = ""
		if got != want {
			t.Errorf("%v: got %+v, want %+v", err, got, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	const limit = 4096
	for name, message := range map[string]string{
		"ASCII":                    strings.Repeat("x", limit+1),
		"characters of two bytes":  strings.Repeat("é", limit),
		"characters of four bytes": "x" + strings.Repeat("😀", limit),
	} {
		if got := errorreason.Truncate(message); len(got) > limit || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%s: got %d bytes that end with %q", name, len(got), got[len(got)-8:])
		}
	}
	if fits := strings.Repeat("é", 100); errorreason.Truncate(fits) != fits {
		t.Errorf("a short message was changed to %q", errorreason.Truncate(fits))
	}
}
