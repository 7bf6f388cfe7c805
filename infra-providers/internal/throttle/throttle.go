// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttle spares a cloud account what cannot succeed now: calls over the account's rate and calls
// while the cloud asked for a pause or answers nothing. It never waits: what must not be called fails at once with the kind of
// error that says when to come back. It also remembers where there was no room or no quota a moment ago, and
// leaves it to the caller what to make of that. Package account puts one around each driver.
package throttle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

const (
	// pauseMin and pauseMax bound the pause after a cloud said that it was asked too often.
	pauseMin, pauseMax = 2 * time.Second, 2 * time.Minute
	// hintMax bounds the pause that a cloud asks for. What answers with a day, such as the maintenance page in front of a
	// service, is asked again earlier, by one call.
	hintMax = 10 * time.Minute
	// asideMin and asideMax bound the time for which a type in a zone is put aside.
	asideMin, asideMax = time.Minute, 30 * time.Minute
)

// Options are the limits of an account.
type Options[C any] struct {
	// Limits are the calls that the account allows; the zero value has none.
	Limits driver.Limits
	// Place returns the instance type and zone of a configuration; nil remembers no shortages.
	Place func(C) (instanceType, zone string)
	Now   func() time.Time
	// Jitter returns a number in [0, 1).
	Jitter func() float64
}

// Throttle implements driver.Driver.
type Throttle[C any] struct {
	of      driver.Driver[C]
	options Options[C]
	limiter *rate.Limiter

	mu    sync.Mutex
	pause backoff
	// because is why there is a pause.
	because error
	aside   expiring.Map[scope, shortage]
}

// New returns a throttle around a driver.
func New[C any](of driver.Driver[C], options Options[C]) *Throttle[C] {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if options.Limits.PerSecond > 0 {
		limiter = rate.NewLimiter(rate.Limit(options.Limits.PerSecond), max(options.Limits.Burst, 1))
	}
	return &Throttle[C]{of: of, options: options, limiter: limiter, aside: expiring.Map[scope, shortage]{Clock: clock(options.Now), Max: mostAside}}
}

// Create implements driver.Driver.
func (t *Throttle[C]) Create(ctx context.Context, req driver.Request[C]) (driver.Instance, error) {
	if err := t.admit(); err != nil {
		return driver.Instance{}, err
	}
	made, err := t.of.Create(ctx, req)
	t.learn(err)
	t.remember(req.Identity.Owner.Namespace, req.Config, err)
	return made, err
}

// Get implements driver.Driver.
func (t *Throttle[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := t.admit(); err != nil {
		return driver.Instance{}, err
	}
	found, err := t.of.Get(ctx, id)
	t.learn(err)
	return found, err
}

// Delete implements driver.Driver.
func (t *Throttle[C]) Delete(ctx context.Context, id driver.Identity) error {
	if err := t.admit(); err != nil {
		return err
	}
	err := t.of.Delete(ctx, id)
	t.learn(err)
	return err
}

// List implements driver.Driver. The whole list counts as one call, because half of one is worth nothing.
func (t *Throttle[C]) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		if err := t.admit(); err != nil {
			yield(driver.Instance{}, err)
			return
		}
		for instance, err := range t.of.List(ctx, owner) {
			if err != nil {
				t.learn(err)
			}
			if !yield(instance, err) {
				return
			}
		}
	}
}

// Do makes a call that is not one of driver.Driver's under the same limits.
func (t *Throttle[C]) Do(call func() error) error {
	if err := t.admit(); err != nil {
		return err
	}
	err := call()
	t.learn(err)
	return err
}

// SilentError means that the cloud did not answer a call in its time. What became of the call is not known.
type SilentError struct{ Limit time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("the cloud did not answer within %s", e.Limit)
}

var errBusy = errors.New("the account's rate of calls is used up")

// admit lets a call through or says when to come back.
func (t *Throttle[C]) admit() error {
	now := t.options.Now()
	t.mu.Lock()
	left, because := t.pause.left(now), t.because
	t.mu.Unlock()
	if left > 0 {
		return &driver.RateLimitedError{RetryAfter: left, Err: because}
	}
	reservation := t.limiter.ReserveN(now, 1)
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return &driver.RateLimitedError{RetryAfter: delay, Err: errBusy}
	}
	return nil
}

// learn takes a pause from an answer, or ends it.
func (t *Throttle[C]) learn(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	silent, isSilent := errors.AsType[*SilentError](err)
	switch {
	case isSilent:
		t.pause.grow(t.options.Now(), pauseMin, pauseMax, t.options.Jitter())
		t.because = silent
	case driver.IsRateLimited(err):
		t.because = errBusy
		t.pause.grow(t.options.Now(), pauseMin, pauseMax, t.options.Jitter())
		t.pause.atLeast(t.options.Now().Add(min(driver.RetryAfter(err), hintMax)))
	case err == nil:
		t.pause = backoff{}
	}
}

// backoff is a pause that doubles each time it is needed again.
type backoff struct {
	length time.Duration
	until  time.Time
}

func (b *backoff) left(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// grow lengthens the pause. Jitter spreads it over its second half, so that accounts do not return at once.
func (b *backoff) grow(now time.Time, shortest, longest time.Duration, jitter float64) {
	b.length = min(max(2*b.length, shortest), longest)
	b.until = now.Add(b.length/2 + time.Duration(jitter*float64(b.length)/2))
}

func (b *backoff) atLeast(until time.Time) {
	if b.until.Before(until) {
		b.until = until
	}
}
