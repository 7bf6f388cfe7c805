// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		is   func(error) bool
		text string
	}{
		"waits while an entity is busy": {&apiError{status: http.StatusBadRequest, code: "BUSY_ENTITY", message: "The entity is busy"}, driver.IsUnfinished,
			"an operation on the vApp or the virtual machine is in progress"},
		"waits after a task that found an entity busy": {&apiError{code: "BUSY_ENTITY"}, driver.IsUnfinished, "an operation on the vApp or the virtual machine is in progress"},
		"is unauthorized without a right": {&apiError{status: http.StatusForbidden, code: "ACCESS_TO_RESOURCE_IS_FORBIDDEN", message: "no"}, driver.IsUnauthorized,
			"ACCESS_TO_RESOURCE_IS_FORBIDDEN: no"},
		"is unauthorized without a session": {&apiError{status: http.StatusUnauthorized, code: "UNAUTHORIZED", message: "no"}, driver.IsUnauthorized, "UNAUTHORIZED: no"},
		"is limited for the time of the answer": {&apiError{status: http.StatusTooManyRequests, retryAfter: 3 * time.Second}, func(err error) bool { return driver.RetryAfter(err) == 3*time.Second },
			"the answer has the status 429 and is not one of Cloud Director"},
		"passes otherwise": {&apiError{status: http.StatusBadRequest, code: "BAD_REQUEST", message: "[ 0a1b2c3d-0000-4000-8000-000000000001 ] VDC_X(com.vmware.vcloud.entity.task:0a1b2c3d-0000-4000-8000-000000000001) failed"},
			func(err error) bool { return !driver.IsInvalidConfiguration(err) && !driver.IsUnauthorized(err) }, "BAD_REQUEST: VDC_X failed"},
		"has no time of a request": {&apiError{code: "INTERNAL_SERVER_ERROR", message: "[ 167-2026-07-28-17-02-55-438--26cf00f3-ef46-4c8b-a685-9c67a694689e ] Requested disk iops 0"},
			func(error) bool { return true }, "INTERNAL_SERVER_ERROR: Requested disk iops 0"},
		"keeps other errors": {errChanged, func(err error) bool { return errors.Is(err, errChanged) }, errChanged.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err); !test.is(got) || got.Error() != test.text {
				t.Errorf("got %T %q, want %q", got, got, test.text)
			}
		})
	}
}

func TestLoginErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err          error
		unauthorized bool
	}{
		"a refused API token":   {&apiError{status: http.StatusBadRequest, code: "invalid_grant"}, true},
		"a refused password":    {&apiError{status: http.StatusUnauthorized}, true},
		"an answer of a proxy":  {&apiError{status: http.StatusBadRequest}, false},
		"a server that is down": {&apiError{status: http.StatusServiceUnavailable, code: "x"}, false},
		"an incomplete answer":  {errIncomplete, false},
	} {
		if got := driver.IsUnauthorized(toLoginError(test.err)); got != test.unauthorized {
			t.Errorf("%s is an UnauthorizedError: %t", name, got)
		}
	}
}

// TestUnansweredRequests: what may have been carried out is remembered, and what was refused is not.
func TestUnansweredRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a lost answer":   {errors.New("reset"), true},
		"a broken server": {&apiError{status: http.StatusBadGateway}, true},
		"a bad request":   {&apiError{status: http.StatusBadRequest, code: "BAD_REQUEST"}, false},
		"a busy entity":   {toError(&apiError{status: http.StatusBadRequest, code: "BUSY_ENTITY"}), false},
		"too many":        {toError(&apiError{status: http.StatusTooManyRequests}), false},
	} {
		if got := isUnanswered(test.err); got != test.want {
			t.Errorf("%s is unanswered: %t", name, got)
		}
	}
}
