// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"drover.io/runtime/fairshare"
)

const (
	// slow is how long a request may take before its API server counts as slow.
	slow = 2 * time.Second
	// slowRequests is how many requests may be under way to all slow API servers together.
	// Each holds one worker of a controller. Those of one namespace get half of them.
	slowRequests = 6
	// answerBytes bounds what is read of one answer, which client-go holds in memory.
	answerBytes = 16 << 20
	// probeBytes bounds the answer to a probe, which is a version, or a refusal with its reason.
	probeBytes = 64 << 10
)

var (
	errSlow    = errors.New("the API server is slow, and enough requests to such servers are under way")
	errTooLong = errors.New("the answer of the API server is too long")
)

// IsBusy reports whether a request was not sent because its API server is slow and other requests have its turn.
func IsBusy(err error) bool { return errors.Is(err, errSlow) }

// share bounds how many workers one workload cluster can hold. A request to an API server
// that answers goes through; one to an API server that is slow, or has not answered for a
// while, gets one of a few seats that all such servers have together, one each, or fails at
// once. The error is one for which IsUnanswered is true, so callers come back later.
type share struct {
	next      http.RoundTripper
	clock     clock.PassiveClock
	namespace string
	// seats are shared by all connections.
	seats *fairshare.Seats[string]

	mu       sync.Mutex
	underWay map[*request]struct{}
	// wasSlow is true from an answer that took long, or failed to come, until one that did not.
	wasSlow bool
}

// request is one under way, until its answer has been read.
type request struct {
	began  time.Time
	seated bool
}

func newShare(next http.RoundTripper, clk clock.PassiveClock, namespace string, seats *fairshare.Seats[string]) *share {
	return &share{next: next, clock: clk, namespace: namespace, seats: seats, underWay: map[*request]struct{}{}}
}

// RoundTrip sends the request if it may be sent now.
func (s *share) RoundTrip(r *http.Request) (*http.Response, error) {
	one, err := s.begin()
	if err != nil {
		return nil, err
	}
	response, err := s.next.RoundTrip(r)
	if err != nil {
		s.end(one)
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, left: answerBytes, end: sync.OnceFunc(func() { s.end(one) })}
	return response, nil
}

func (s *share) begin() (*request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	one := &request{began: now}
	if s.slow(now) {
		for other := range s.underWay {
			if other.seated {
				return nil, errSlow
			}
		}
		if !s.seats.Acquire(s.namespace) {
			return nil, errSlow
		}
		one.seated = true
	}
	s.underWay[one] = struct{}{}
	return one, nil
}

// slow reports whether the last answer took long, or one that is awaited does.
func (s *share) slow(now time.Time) bool {
	if s.wasSlow {
		return true
	}
	for each := range s.underWay {
		if now.Sub(each.began) >= slow {
			return true
		}
	}
	return false
}

func (s *share) end(one *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underWay, one)
	s.wasSlow = s.clock.Since(one.began) >= slow
	if one.seated {
		s.seats.Release(s.namespace)
	}
}

// body is an answer that ends its request when it is closed, and is not read without end.
type body struct {
	io.ReadCloser
	left int64
	end  func()
}

// Read fails once the answer is longer than any of Kubernetes' is.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// Close ends the request.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// limiter bounds how long a request waits for its turn.
type limiter struct {
	flowcontrol.RateLimiter
	maxWait time.Duration
}

// Wait returns once the request may be sent.
func (l limiter) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.maxWait)
	defer cancel()
	return l.RateLimiter.Wait(ctx)
}
