// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttle prevents calls to a cloud account that cannot succeed now: calls over the account's rate, which the
// namespaces that call it share, and calls while the cloud requested a pause or does not answer. It never waits: a call that
// is prevented fails at once with a RateLimitedError, which has the time to wait. It also records for which
// offerings there was no capacity or no quota a moment ago, for the caller to choose another one. Package account puts one around each driver.
package throttle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

const (
	// pauseMin and pauseMax bound the pause after the cloud limited the rate of calls.
	pauseMin, pauseMax = 2 * time.Second, 2 * time.Minute
	// unavailableMin and unavailableMax bound the time for which an offering is unavailable.
	unavailableMin, unavailableMax = time.Minute, 30 * time.Minute
)

// Options are the limits of an account.
type Options[C any] struct {
	// Cloud is the name of the cloud in metrics.
	Cloud string
	// Limits are the calls that the account allows; the zero value has none.
	Limits driver.Limits
	// Offering returns the instance type and zone of a configuration; nil keeps no unavailable offerings.
	Offering func(C) (instanceType, zone string)
	Now      func() time.Time
	// Jitter returns a number in [0, 1).
	Jitter func() float64
}

// Throttle implements driver.Driver.
type Throttle[C any] struct {
	of      driver.Driver[C]
	options Options[C]

	mu    sync.Mutex
	rate  *fairRate
	pause backoff
	// cause is why there is a pause.
	cause error
	// paused are the pauses of namespaces for which the cloud limited the rate of a call or did not answer it, and answered
	// no other one since.
	paused expiring.Map[string, namespacePause]
	// unavailable are the offerings that are unavailable, and those that were a while ago.
	unavailable expiring.Map[scope, unavailability]
}

// Clock is a function that returns the time, as a clock.PassiveClock.
type Clock func() time.Time

// Now implements clock.PassiveClock.
func (c Clock) Now() time.Time { return c() }

// Since implements clock.PassiveClock.
func (c Clock) Since(t time.Time) time.Duration { return c().Sub(t) }

// New returns a throttle around a driver.
func New[C any](of driver.Driver[C], options Options[C]) *Throttle[C] {
	prevented.Start(options.Cloud)
	return &Throttle[C]{
		of: of, options: options, rate: newFairRate(options.Limits),
		unavailable: expiring.Map[scope, unavailability]{Clock: Clock(options.Now), Max: maxUnavailable},
		paused:      expiring.Map[string, namespacePause]{Clock: Clock(options.Now), TTL: 2 * driver.MaxRetryAfter, Max: maxUnavailable},
	}
}

// Create implements driver.Driver.
func (t *Throttle[C]) Create(ctx context.Context, req driver.CreateRequest[C]) (driver.Instance, error) {
	if err := t.admit(req.Identity.Owner.Namespace); err != nil {
		return driver.Instance{}, err
	}
	created, err := t.of.Create(ctx, req)
	t.recordPause(req.Identity.Owner.Namespace, err)
	t.recordResult(req.Identity.Owner.Namespace, req.Config, err)
	return created, err
}

// Get implements driver.Driver.
func (t *Throttle[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := t.admit(id.Owner.Namespace); err != nil {
		return driver.Instance{}, err
	}
	found, err := t.of.Get(ctx, id)
	t.recordPause(id.Owner.Namespace, err)
	return found, err
}

// Delete implements driver.Driver.
func (t *Throttle[C]) Delete(ctx context.Context, id driver.Identity) error {
	if err := t.admit(id.Owner.Namespace); err != nil {
		return err
	}
	err := t.of.Delete(ctx, id)
	t.recordPause(id.Owner.Namespace, err)
	return err
}

// List implements driver.Driver. The whole list counts as one call, because half of one is worth nothing.
func (t *Throttle[C]) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		if err := t.admit(owner.Namespace); err != nil {
			yield(driver.Instance{}, err)
			return
		}
		for instance, err := range t.of.List(ctx, owner) {
			if err != nil {
				t.recordPause(owner.Namespace, err)
			}
			if !yield(instance, err) {
				return
			}
		}
	}
}

// Do makes a call that is not one of driver.Driver under the same limits. The namespace is empty for a call for all.
func (t *Throttle[C]) Do(namespace string, call func() error) error {
	if err := t.admit(namespace); err != nil {
		return err
	}
	err := call()
	t.recordPause(namespace, err)
	return err
}

// TimeoutError means that the cloud did not answer a call in its time. What became of the call is not known.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the cloud did not answer within %s", e.Limit)
}

var errBusy = errors.New("the account's rate of calls is used up")

// admit returns an error with the time to wait for a call that must not be made now.
func (t *Throttle[C]) admit(namespace string) error {
	now := t.options.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	left, cause := t.pause.left(now), t.cause
	if own, paused := t.paused.Get(namespace); paused && own.left(now) > left {
		left, cause = own.left(now), own.cause
	}
	if left > 0 {
		prevented.Inc(t.options.Cloud, preventedByPause)
		return &driver.RateLimitedError{RetryAfter: left, Err: cause}
	}
	if wait := t.rate.take(namespace, now); wait > 0 {
		prevented.Inc(t.options.Cloud, preventedByRate)
		return &driver.RateLimitedError{RetryAfter: wait, Err: errBusy}
	}
	return nil
}

// namespacePause is the pause of a namespace, and why.
type namespacePause struct {
	backoff
	cause error
}

// recordPause begins a pause after an answer that limits the rate or was missing, and makes the next one short again after one
// that succeeded. A success during a pause is that of a call that began before, and says nothing about it. What
// one namespace calls may be the reason: clouds limit each kind of call by itself, and a call may be slow by what it reads.
// So it pauses only its namespace until a call for another one has such an answer too.
func (t *Throttle[C]) recordPause(namespace string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.recordSuccess(namespace)
		return
	}
	cause := errBusy
	if timeout, ok := errors.AsType[*TimeoutError](err); ok {
		cause = timeout
	} else if !driver.IsRateLimited(err) {
		return
	}
	if namespace == "" || t.pausedElsewhere(namespace) {
		t.prolong(&t.pause, err)
		t.cause = cause
		return
	}
	own, _ := t.paused.Get(namespace)
	t.prolong(&own.backoff, err)
	own.cause = cause
	t.paused.Set(namespace, own)
}

// recordSuccess ends what is left of pauses that are over.
func (t *Throttle[C]) recordSuccess(namespace string) {
	now := t.options.Now()
	if t.pause.left(now) == 0 {
		t.pause = backoff{}
	}
	if own, paused := t.paused.Get(namespace); paused && own.left(now) == 0 {
		t.paused.Delete(namespace)
	}
}

// prolong lengthens a pause after an error, to the time that the cloud requested at least. Many calls may be refused at once;
// that counts once.
func (t *Throttle[C]) prolong(pause *backoff, err error) {
	now := t.options.Now()
	if pause.left(now) == 0 {
		pause.grow(now, pauseMin, pauseMax, t.options.Jitter())
	}
	pause.atLeast(now.Add(driver.RetryAfter(err)))
}

// pausedElsewhere reports whether a call for another namespace was limited or had no answer either.
func (t *Throttle[C]) pausedElsewhere(namespace string) bool {
	others := t.paused.Len()
	if t.paused.Has(namespace) {
		others--
	}
	return others > 0
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
