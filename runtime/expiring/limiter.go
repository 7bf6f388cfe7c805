// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limiter allows a step at most once per period for each key. The first step, and any after a period without one, is
// due at once. The fields must not change after the first call.
//
// A Limiter that has Max keys treats the key whose period would have ended first as due when another is marked.
type Limiter[K comparable] struct {
	// Clock is clock.RealClock if it is nil.
	Clock clock.PassiveClock
	// Period is the time between two steps of one key.
	Period time.Duration
	// Max is how many keys there may be whose next step is not due. Zero is DefaultMax.
	Max int

	once sync.Once
	next Map[K, time.Time]
}

// Allow reports whether a step is due, and marks it as taken if so.
func (l *Limiter[K]) Allow(key K) bool {
	if l.Period <= 0 {
		return true
	}
	next := l.until(l.Period)
	_, waiting := l.steps().GetOrSet(key, next)
	return !waiting
}

// Remaining returns how long the next step of a key has to wait. It is zero if the step is due.
func (l *Limiter[K]) Remaining(key K) time.Duration {
	next, _ := l.steps().Get(key) // the zero time, which is past, if there is none
	return max(0, next.Sub(l.next.now()))
}

// Mark notes that a step was taken now.
func (l *Limiter[K]) Mark(key K) { l.MarkFor(key, l.Period) }

// MarkFor notes that a step was taken now after which the next has to wait for a period of its own. It replaces the
// period that was noted before, also where that was longer.
func (l *Limiter[K]) MarkFor(key K, period time.Duration) {
	next := l.until(period)
	l.steps().SetUntil(key, next, next)
}

// Reset makes the next step of a key due.
func (l *Limiter[K]) Reset(key K) { l.steps().Delete(key) }

// Len returns the number of keys whose next step is not due.
func (l *Limiter[K]) Len() int { return l.steps().Len() }

func (l *Limiter[K]) until(period time.Duration) time.Time { return l.steps().now().Add(period) }

func (l *Limiter[K]) steps() *Map[K, time.Time] {
	l.once.Do(func() { l.next.Clock, l.next.TTL, l.next.Max = l.Clock, l.Period, l.Max })
	return &l.next
}
