// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// minRetry and maxRetry bound how long a refused object waits for its next attempt. An attempt that is refused again costs
	// little, but not nothing.
	minRetry, maxRetry = 100 * time.Millisecond, 10 * time.Second
	// sweepPeriod is the time between two searches for objects that did not return because they were deleted.
	sweepPeriod = time.Minute
)

// Gate divides the workers of a controller among holders, such as namespaces, as Seats divides seats. A turn is one
// reconcile of one object. While its holder has its share, an object is refused at once, because a worker that waited would
// be of no use to the others. It is told when to come back: after those that were refused before it, at the rate at which the
// turns of the holder end. A holder alone thus loses no time while its turns are short, and where they hang, its other objects come back
// seldom. The nil Gate refuses none.
type Gate struct {
	clock clock.PassiveClock
	seats *Seats[string]

	mu      sync.Mutex
	holders map[string]*holder
	swept   time.Time
}

// holder is what the gate knows of the turns of one holder.
type holder struct {
	// began has when the turns that are under way began, by object.
	began map[string]time.Time
	// average is how long the latest turns took.
	average time.Duration
	// due has when objects that were refused have their next attempt, and last is the latest of them.
	due  map[string]time.Time
	last time.Time
}

// NewGate returns a gate for so many workers; zero is no limit.
func NewGate(workers int, clk clock.PassiveClock) *Gate {
	return &Gate{clock: clk, seats: New[string](workers), holders: map[string]*holder{}}
}

// Enter begins the turn of an object, which leave ends. Where the holder has its share, leave is nil: the object should come
// back after the given time. One that comes back earlier keeps its place.
func (g *Gate) Enter(name, object string) (leave func(), retryAfter time.Duration) {
	if g == nil {
		return func() {}, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	g.sweep(now)
	h := g.holders[name]
	if h == nil {
		h = &holder{began: map[string]time.Time{}, due: map[string]time.Time{}}
		g.holders[name] = h
	}
	if !g.seats.Acquire(name) {
		return nil, max(minRetry, h.refuse(object, now).Sub(now))
	}
	delete(h.due, object)
	h.began[object] = now
	return sync.OnceFunc(func() { g.leave(name, object) }), 0
}

func (g *Gate) leave(name, object string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats.Release(name)
	h := g.holders[name]
	if h == nil {
		return // a turn of the same object has ended before
	}
	if began, underWay := h.began[object]; underWay {
		h.average = (3*h.average + g.clock.Since(began)) / 4
		delete(h.began, object)
	}
	if h.idle() {
		delete(g.holders, name)
	}
}

// refuse returns when an object has its next attempt.
func (h *holder) refuse(object string, now time.Time) time.Time {
	if due, known := h.due[object]; known && due.After(now) {
		return due
	}
	if h.last.Before(now) {
		h.last = now
	}
	h.last = h.last.Add(h.interval(now))
	if latest := now.Add(maxRetry); h.last.After(latest) {
		h.last = latest
	}
	h.due[object] = h.last
	return h.last
}

// interval is the time between the ends of two turns, if each takes as long as the latest did, or as it has taken already.
func (h *holder) interval(now time.Time) time.Duration {
	var perSecond float64
	for _, began := range h.began {
		perSecond += 1 / max(h.average, now.Sub(began), time.Millisecond).Seconds()
	}
	if perSecond == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / perSecond)
}

func (h *holder) idle() bool { return len(h.began) == 0 && len(h.due) == 0 }

// sweep forgets the objects that did not come back.
func (g *Gate) sweep(now time.Time) {
	if now.Sub(g.swept) < sweepPeriod {
		return
	}
	g.swept = now
	maps.DeleteFunc(g.holders, func(_ string, h *holder) bool {
		maps.DeleteFunc(h.due, func(_ string, due time.Time) bool { return now.Sub(due) >= sweepPeriod })
		return h.idle()
	})
}
