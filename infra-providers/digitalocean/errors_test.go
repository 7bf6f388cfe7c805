// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/digitalocean/godo"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// answer is an error of the SDK.
func answer(status int) *godo.ErrorResponse {
	request := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "api.digitalocean.com", Path: "/v2/droplets"}}
	return &godo.ErrorResponse{
		Response: &http.Response{StatusCode: status, Header: http.Header{}, Request: request}, Message: "words", RequestID: "b4e1", Attempts: 3,
	}
}

func TestToError(t *testing.T) {
	t.Parallel()
	for status, is := range map[int]func(error) bool{
		http.StatusUnauthorized:          driver.IsUnauthorized,
		http.StatusForbidden:             driver.IsUnauthorized,
		http.StatusTooManyRequests:       driver.IsRateLimited,
		http.StatusRequestEntityTooLarge: driver.IsInvalidConfiguration,
		http.StatusBadRequest:            drivertest.HasNoKind,
		http.StatusNotFound:              drivertest.HasNoKind,
		http.StatusConflict:              drivertest.HasNoKind,
		http.StatusUnprocessableEntity:   drivertest.HasNoKind,
		http.StatusLocked:                drivertest.HasNoKind,
		http.StatusInternalServerError:   drivertest.HasNoKind,
		http.StatusServiceUnavailable:    drivertest.HasNoKind,
	} {
		got := toError(fmt.Errorf("creating: %w", answer(status)), time.Now())
		if !is(got) {
			t.Errorf("%d: got %T: %v", status, got, got)
		}
		want := fmt.Sprintf("creating: POST /v2/droplets: %d words", status)
		if status == http.StatusRequestEntityTooLarge {
			want = bootstrapField + ": " + want
		}
		if got.Error() != want {
			t.Errorf("%d: got text %q, want %q, without the ID of the request", status, got, want)
		}
	}
	if err := toError(nil, time.Now()); err != nil {
		t.Errorf("got %v from nothing", err)
	}
	if err := toError(&driver.NotOwnedError{}, time.Now()); !driver.IsNotOwned(err) {
		t.Errorf("got %v, want what had a kind already", err)
	}
}

// TestNetworkErrorsAreStable: a condition must not change with each port.
func TestNetworkErrorsAreStable(t *testing.T) {
	t.Parallel()
	failure := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://api.digitalocean.com/v2/droplets", Err: &net.OpError{
			Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: errors.New("connection refused")}}
	}
	first, second := toError(failure(1), time.Now()), toError(failure(2), time.Now())
	if first.Error() != second.Error() || !drivertest.HasNoKind(first) {
		t.Errorf("got %q and %q", first, second)
	}
	if err := toError(fmt.Errorf("reading: %w", context.Canceled), time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestIsUnanswered(t *testing.T) {
	t.Parallel()
	for want, all := range map[bool][]error{
		true:  {io.ErrUnexpectedEOF, context.DeadlineExceeded, answer(500), answer(502), answer(504), answer(408)},
		false: {nil, answer(400), answer(401), answer(403), answer(404), answer(409), answer(422), answer(429)},
	} {
		for _, err := range all {
			if got := isUnanswered(err); got != want {
				t.Errorf("%v: got %t", err, got)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	at := func(in time.Duration) string { return strconv.FormatInt(now.Add(in).Unix(), 10) }
	for name, test := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"prefers the hint":                       {map[string]string{"Retry-After": "20", "Ratelimit-Reset": at(time.Minute)}, 20 * time.Second},
		"reads a date":                           {map[string]string{"Retry-After": now.Add(time.Minute).UTC().Format(http.TimeFormat)}, time.Minute},
		"waits for the oldest request":           {map[string]string{"Ratelimit-Reset": at(7 * time.Minute)}, 7 * time.Minute},
		"waits not for what has expired":         {map[string]string{"Ratelimit-Reset": at(-time.Minute)}, 0},
		"waits ten minutes at most":              {map[string]string{"Ratelimit-Reset": at(1000 * time.Hour)}, driver.MaxRetryAfter},
		"waits ten minutes at most after a hint": {map[string]string{"Retry-After": "999999999"}, driver.MaxRetryAfter},
		"has no hint":                            {nil, 0},
		"has no hint in a header without number": {map[string]string{"Retry-After": "soon", "Ratelimit-Reset": "later"}, 0},
		"ignores a negative hint":                {map[string]string{"Retry-After": "-5"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limited := answer(http.StatusTooManyRequests)
			for key, value := range test.header {
				limited.Response.Header.Set(key, value)
			}
			if got := driver.RetryAfter(toError(limited, now)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestDropletThatExistsLacksNothing: the caller would request another one otherwise.
func TestDropletThatExistsLacksNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{&driver.QuotaExceededError{Err: io.EOF}, &driver.InsufficientCapacityError{Err: io.EOF}} {
		if got := withDroplet(kind); !drivertest.HasNoKind(got) {
			t.Errorf("got %T: %v", got, got)
		}
	}
	if got := withDroplet(&driver.UnauthorizedError{Err: io.EOF}); !driver.IsUnauthorized(got) {
		t.Errorf("got %v, want an UnauthorizedError", got)
	}
}
