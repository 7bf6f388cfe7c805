// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

func TestStableNetworkError(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for name, test := range map[string]struct {
		failure func(n int) error
		want    string
		is      error
	}{
		"leaves out ports": {func(n int) error {
			return fmt.Errorf("reading: %w", &net.OpError{Op: "read", Source: &net.TCPAddr{Port: n}, Err: syscall.ECONNRESET})
		}, "calling it: read: connection reset by peer", syscall.ECONNRESET},
		"leaves out URLs": {func(n int) error { return &url.Error{Op: "Get", URL: fmt.Sprint("https://x?page=", n), Err: io.EOF} }, "calling it: EOF", io.EOF},
		"leaves out the URL of a cancelled call": {func(n int) error {
			return &url.Error{Op: "Get", URL: fmt.Sprint("https://x?page=", n), Err: context.Canceled}
		}, "calling it: context canceled", context.Canceled},
		"leaves out what was read late": {func(n int) error { return fmt.Errorf("after %d bytes: %w", n, context.DeadlineExceeded) }, "calling it: context deadline exceeded", context.DeadlineExceeded},
		"keeps other errors":            {func(int) error { return other }, "other", other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 2 {
				if got := driver.StableNetworkError(test.failure(n), "calling it"); got.Error() != test.want || !errors.Is(got, test.is) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
		})
	}
}

func TestTransportErrorKeepsAKind(t *testing.T) {
	limited := &driver.RateLimitedError{RetryAfter: time.Second, Err: errors.New("too many tokens")}
	wrapped := &url.Error{Op: "Get", URL: "https://cloud.test/instances?page=7", Err: limited}
	if got := driver.TransportError(wrapped, "calling the cloud"); !driver.IsRateLimited(got) || got.Error() != limited.Error() {
		t.Errorf("got %#v, want the error of a kind without what wraps it", got)
	}
	refused := &url.Error{Op: "Get", URL: "https://cloud.test/instances?page=7", Err: errors.New("connection refused")}
	if got := driver.TransportError(refused, "calling the cloud").Error(); got != "calling the cloud: connection refused" {
		t.Errorf("got %q, want the text without the URL", got)
	}
}
