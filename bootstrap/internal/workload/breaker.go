// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// How long calls fail at once after the API server did not answer: doubled each time up to the limit.
const (
	firstPause = 5 * time.Second
	lastPause  = 2 * time.Minute
)

// breaker keeps a workload cluster that does not answer from holding up the workers, which serve the others too.
// All clients of a connection share it.
type breaker struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until time.Time
	pause time.Duration
	cause error
}

func (b *breaker) wrap(next http.RoundTripper) http.RoundTripper {
	return &guarded{breaker: b, next: next}
}

// guarded is one client's transport behind the breaker.
type guarded struct {
	*breaker
	next http.RoundTripper
}

// RoundTrip fails with the last error while paused, and pauses when no answer comes.
func (b *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if cause := b.paused(); cause != nil {
		return nil, cause
	}
	response, err := b.next.RoundTrip(request)
	if err != nil && errors.Is(request.Context().Err(), context.Canceled) {
		return response, err // the caller went away, which says nothing of the server
	}
	b.note(err)
	return response, err
}

func (b *breaker) paused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clock.Now().Before(b.until) {
		return b.cause
	}
	return nil
}

func (b *breaker) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.pause, b.until, b.cause = 0, time.Time{}, nil
		return
	}
	if b.clock.Now().Before(b.until) {
		return // calls that ran together count once
	}
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.until, b.cause = b.clock.Now().Add(b.pause), err
}

func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.until.Sub(b.clock.Now()), 0)
}
