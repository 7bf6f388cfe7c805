// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	prismerrors "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/error"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/nutanix/prism"
)

func TestToError(t *testing.T) {
	t.Parallel()
	answer := func(status int, group string) error { return &prism.AnswerError{Status: status, Group: group} }
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"invalid credentials":        {answer(http.StatusUnauthorized, ""), driver.IsUnauthorized},
		"a missing permission":       {answer(http.StatusForbidden, "FORBIDDEN"), driver.IsUnauthorized},
		"too many requests":          {answer(http.StatusTooManyRequests, ""), driver.IsRateLimited},
		"too many requests by group": {answer(http.StatusBadRequest, "RATE_LIMIT_EXCEEDED"), driver.IsRateLimited},
		"another entity tag":         {answer(http.StatusPreconditionFailed, ""), driver.IsUnfinished},
		"another tag by group":       {answer(http.StatusConflict, "VM_ETAG_MISMATCH"), driver.IsUnfinished},
		"an absence":                 {answer(http.StatusNotFound, "VM_NOT_FOUND"), drivertest.HasNoKind},
		"a failure":                  {answer(http.StatusInternalServerError, "VM_INTERNAL_ERROR"), drivertest.HasNoKind},
		"a redirect":                 {answer(http.StatusFound, ""), drivertest.HasNoKind},
		"an end of the context":      {context.DeadlineExceeded, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && drivertest.HasNoKind(err) }},
		"an invalid spec":            {&driver.InvalidConfigurationError{Field: "spec.image", Err: errors.New("gone")}, driver.IsInvalidConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
	limited := &prism.AnswerError{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}}
	if got := driver.RetryAfter(toError(limited)); got != 7*time.Second {
		t.Errorf("got a pause of %s, want 7s", got)
	}
}

func TestToCreateErrorNamesTheField(t *testing.T) {
	t.Parallel()
	for attribute, want := range map[string]string{
		"$.nics[0].networkInfo.subnet": "spec.networkInterfaces", "/numSockets": "spec.vcpuSockets", "disks": "spec.dataDisks", "anything": "spec", "": "spec",
	} {
		err := toCreateError(&prism.AnswerError{Status: http.StatusBadRequest, Attribute: attribute})
		invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err)
		if !ok || invalid.Field != want {
			t.Errorf("%q: got %v, want the field %s", attribute, err, want)
		}
	}
	for name, err := range map[string]error{
		"a retryable error":   &prism.AnswerError{Status: http.StatusBadRequest, Group: "RETRYABLE_ERROR"},
		"a conflict":          &prism.AnswerError{Status: http.StatusConflict},
		"an answer of others": &prism.AnswerError{Status: http.StatusBadGateway},
	} {
		if got := toCreateError(err); !drivertest.HasNoKind(got) {
			t.Errorf("%s: got %T %v, want a transient error", name, got, got)
		}
	}
}

func TestIsRefusal(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		http.StatusBadRequest: true, http.StatusTooManyRequests: true, http.StatusPreconditionFailed: true,
		http.StatusRequestTimeout: false, http.StatusBadGateway: false, http.StatusServiceUnavailable: false, http.StatusFound: false,
	} {
		if got := isRefusal(&prism.AnswerError{Status: status}); got != want {
			t.Errorf("status %d: got %t", status, got)
		}
	}
	if isRefusal(errors.New("connection reset")) {
		t.Error("a lost answer is no refusal")
	}
}

func TestTaskErrors(t *testing.T) {
	t.Parallel()
	group, code, text := "RETRYABLE_ERROR", "VMM-10011", "try again"
	message := prismerrors.NewAppMessage()
	message.ErrorGroup, message.Code, message.Message = &group, &code, &text
	task := tasks.NewTask()
	task.Status, task.ErrorMessages = tasks.TASKSTATUS_FAILED.Ref(), []prismerrors.AppMessage{*message}
	if !isRetryable(task) {
		t.Error("it is retryable")
	}
	if got, want := toTaskError(task, "creating").Error(), "creating: VMM-10011: try again"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	empty := tasks.NewTask()
	empty.Status = tasks.TASKSTATUS_FAILED.Ref()
	if isRetryable(empty) || !drivertest.HasNoKind(toTaskError(empty, "creating")) {
		t.Error("a task without messages")
	}
	empty.Status = tasks.TASKSTATUS_CANCELED.Ref()
	if !isRetryable(empty) {
		t.Error("one that was cancelled is retryable")
	}
}
