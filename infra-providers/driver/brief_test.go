// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

// TestBriefErrorHasTheKind: what becomes of a machine depends on it.
func TestBriefErrorHasTheKind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	cause := errors.New(long)
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"not found":        {&driver.NotFoundError{What: long}, driver.IsNotFound},
		"not owned":        {&driver.NotOwnedError{ProviderID: long, Found: driver.Identity{UID: "u", Name: long, Owner: driver.Owner{Namespace: "n", Name: long}}, Requested: driver.Identity{Owner: driver.Owner{Namespace: "n"}}}, func(err error) bool { return driver.IsNotOwned(err) && !driver.IsUntagged(err) }},
		"untagged":         {&driver.NotOwnedError{ProviderID: long}, driver.IsUntagged},
		"not running":      {&driver.NotRunningError{State: driver.Stopped}, driver.IsNotRunning},
		"busy":             {&driver.BusyError{}, driver.IsBusy},
		"account mismatch": {&driver.AccountMismatchError{Connected: long}, driver.IsAccountMismatch},
		"capacity": {&driver.InsufficientCapacityError{OfRequest: true, Err: cause}, func(err error) bool {
			e, ok := errors.AsType[*driver.InsufficientCapacityError](err)
			return ok && e.OfRequest
		}},
		"invalid configuration": {&driver.InvalidConfigurationError{Field: "spec.x", Err: cause}, func(err error) bool {
			return driver.IsInvalidConfiguration(err) && strings.HasPrefix(err.Error(), "spec.x: ")
		}},
		"rate":         {&driver.RateLimitedError{RetryAfter: time.Minute, Err: cause}, func(err error) bool { return driver.RetryAfter(err) == time.Minute }},
		"unauthorized": {&driver.UnauthorizedError{Err: cause}, driver.IsUnauthorized},
		"quota":        {&driver.QuotaExceededError{Err: cause}, driver.IsQuotaExceeded},
		"unfinished":   {&driver.UnfinishedError{Err: cause}, driver.IsUnfinished},
		"none":         {cause, func(err error) bool { return err != nil }},
	} {
		for _, err := range []error{test.err, fmt.Errorf("calling: %w", test.err)} {
			got := driver.Brief(err)
			if !test.is(got) {
				t.Errorf("%s: the kind is lost: %T", name, got)
			}
			if got != nil && len(got.Error()) > 4*4096 {
				t.Errorf("%s: %d bytes are kept", name, len(got.Error()))
			}
		}
	}
	if got := driver.Brief(nil); got != nil {
		t.Errorf("no error became %v", got)
	}
}
