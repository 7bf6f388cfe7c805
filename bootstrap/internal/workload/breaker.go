// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"drover.io/runtime/httplimit"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// minPause and maxPause bound how long calls fail at once after the API server did not answer: the pause doubles each time.
const (
	minPause = 5 * time.Second
	maxPause = 2 * time.Minute
)

// breaker is a circuit breaker for a workload cluster that does not answer, whose requests would occupy the workers that
// other clusters need. All clients of a connection share it.
type breaker struct {
	clock clock.PassiveClock
	log   logr.Logger

	mu    sync.Mutex
	until time.Time
	pause time.Duration
	cause error
	// connected is true after an answer, until there is none.
	connected bool
}

func (b *breaker) wrap(next http.RoundTripper) http.RoundTripper {
	return &breakerTransport{breaker: b, next: next}
}

// breakerTransport is one client's transport behind the breaker.
type breakerTransport struct {
	*breaker
	next http.RoundTripper
}

// RoundTrip fails with the last error while paused, and pauses when no answer comes, or only a part of one, or one that the
// server is overloaded.
func (b *breakerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if cause := b.paused(); cause != nil {
		return nil, cause
	}
	response, err := b.next.RoundTrip(request)
	if err != nil && errors.Is(request.Context().Err(), context.Canceled) {
		return response, err // the caller gave up, which is no failure of the server
	}
	if err == nil && (response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable) {
		return nil, b.noteOverload(response)
	}
	if err != nil || response.Body == nil || request.URL.Query().Get("watch") != "" {
		b.note(err)
		return response, err
	}
	response.Body = &circuitBreakerBody{ReadCloser: response.Body, request: request, breaker: b.breaker}
	return response, nil
}

// circuitBreakerBody counts as one when it was read to its end: a server that sends half of it and hangs blocks its callers as long as
// one that sends nothing.
type circuitBreakerBody struct {
	io.ReadCloser
	request *http.Request
	breaker *breaker
}

// Read notes the end of the answer, or why there is none.
func (a *circuitBreakerBody) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	_, busy := errors.AsType[*httplimit.BusyError](err)
	switch {
	case busy: // a limit of this process, not a failure of the server
	case errors.Is(err, io.EOF):
		a.breaker.note(nil)
	case err != nil && !errors.Is(a.request.Context().Err(), context.Canceled):
		a.breaker.note(err)
	}
	return n, err
}

func (b *breaker) paused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clock.Now().Before(b.until) {
		return b.cause
	}
	return nil
}

// noteOverload closes an answer that the server is overloaded, and returns it as an error, which is the same each time.
func (b *breaker) noteOverload(response *http.Response) error {
	_ = response.Body.Close() // its text is the server's choice
	status := apierrors.NewTooManyRequestsError("it has too many requests")
	if response.StatusCode == http.StatusServiceUnavailable {
		status = apierrors.NewServiceUnavailable("it is not available at the moment")
	}
	seconds, err := strconv.Atoi(response.Header.Get(workload.RetryAfterHeader))
	if err != nil {
		seconds = 0
	}
	b.noteFor(status, time.Duration(min(seconds, int(maxPause/time.Second)))*time.Second)
	return status
}

// note notes an answer, or why there is none.
func (b *breaker) note(err error) { b.noteFor(err, minPause) }

// noteFor does, and pauses for no less than that.
func (b *breaker) noteFor(err error, least time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if !b.connected {
			b.log.Info("connected to workload cluster")
		}
		b.pause, b.until, b.cause, b.connected = 0, time.Time{}, nil, true
		return
	}
	if b.clock.Now().Before(b.until) {
		return // calls that ran together count once
	}
	b.pause = min(max(2*b.pause, minPause, least), maxPause)
	b.until, b.cause = b.clock.Now().Add(b.pause), err
	if b.connected {
		b.log.Info("disconnected from workload cluster", "message", requesterror.Describe(err), "after", b.pause)
	} else {
		b.log.V(1).Info("could not connect to workload cluster", "message", requesterror.Describe(err), "after", b.pause)
	}
	b.connected = false
}

func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.until.Sub(b.clock.Now()), 0)
}
