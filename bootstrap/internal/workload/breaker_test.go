// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"drover.io/runtime/httplimit"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

var errBoom = errors.New("boom")

// server is a transport that fails on demand and counts.
type server struct {
	err   error
	body  io.ReadCloser
	calls int
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.calls++
	return &http.Response{StatusCode: http.StatusOK, Body: s.body}, s.err
}

func call(ctx context.Context, t *testing.T, transport http.RoundTripper) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://a.example.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = transport.RoundTrip(request) //nolint:bodyclose // there is none
	return err
}

// TestIncompleteAnswerCountsAsNone has a server send the beginning of an answer, then hang; and a watch that ends.
func TestIncompleteAnswerCountsAsNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ctx    func() context.Context
		query  string
		end    error
		paused bool
	}{
		"a whole answer":         {t.Context, "", io.EOF, false},
		"half an answer":         {t.Context, "", context.DeadlineExceeded, true},
		"no seat for a long one": {t.Context, "", &httplimit.BusyError{}, false},
		"a watch that ends":      {t.Context, "?watch=1", errBoom, false},
		"a caller who went away": {func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, "", context.Canceled, false},
	} {
		b := &breaker{clock: clocktesting.NewFakeClock(time.Now())}
		request, err := http.NewRequestWithContext(test.ctx(), http.MethodGet, "https://a.example.test/"+test.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := b.wrap(&server{body: io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(test.end)))}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if paused := b.remaining() > 0; paused != test.paused {
			t.Errorf("%s: paused %t, want %t", name, paused, test.paused)
		}
	}
}

func TestUnresponsiveServerIsNotCalled(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	b := &breaker{clock: clock}
	s := &server{err: errBoom}
	transport := b.wrap(s)
	var pauses []time.Duration
	for range 7 {
		if err := call(t.Context(), t, transport); !errors.Is(err, errBoom) {
			t.Fatalf("err = %v, want boom", err)
		}
		before := s.calls
		if err := call(t.Context(), t, transport); !errors.Is(err, errBoom) || s.calls != before {
			t.Fatalf("err = %v after %d calls, want boom without a call", err, s.calls-before)
		}
		pauses = append(pauses, b.remaining())
		clock.Step(b.remaining())
	}
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute} {
		if pauses[i] != want {
			t.Errorf("pause %d = %s, want %s", i, pauses[i], want)
		}
	}
	s.err = nil
	if err := call(t.Context(), t, transport); err != nil || b.remaining() != 0 {
		t.Errorf("err = %v, remaining = %s after an answer", err, b.remaining())
	}
}

func TestCanceledCallIsNoFailureOfTheServer(t *testing.T) {
	t.Parallel()
	b := &breaker{clock: clocktesting.NewFakeClock(time.Now())}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = call(ctx, t, b.wrap(&server{err: context.Canceled}))
	if b.remaining() != 0 {
		t.Error("paused because a caller went away")
	}
}

// TestOverloadedServerIsNotCalled for as long as it sends in Retry-After, up to a bound, or for the usual pause.
func TestOverloadedServerIsNotCalled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		"too many requests": {http.StatusTooManyRequests, "30", 30 * time.Second},
		"unavailable":       {http.StatusServiceUnavailable, "", minPause},
		"a short time":      {http.StatusServiceUnavailable, "1", minPause},
		"a long time":       {http.StatusTooManyRequests, "99999999", maxPause},
		"no number":         {http.StatusTooManyRequests, "-x", minPause},
		"another error":     {http.StatusInternalServerError, "30", 0},
	} {
		b := &breaker{clock: clocktesting.NewFakeClock(time.Now())}
		response := &http.Response{StatusCode: test.status, Header: http.Header{}, Body: http.NoBody}
		response.Header.Set(workload.RetryAfterHeader, test.retryAfter)
		err := call(t.Context(), t, b.wrap(answering{response}))
		if got := b.remaining(); got != test.want || requesterror.IsUnavailable(err) != (test.want > 0) {
			t.Errorf("%s: paused for %s after %v, want %s", name, got, err, test.want)
		}
	}
}

// answering is a transport with one answer.
type answering struct{ response *http.Response }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a.response, nil }
