// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync"
	"time"
)

// Clock is the clock of a driver under test, whose windows and lifetimes are minutes and hours: it can be advanced, and run
// faster than time. It is safe for concurrent use, and implements clock.PassiveClock.
type Clock struct {
	mu    sync.Mutex
	at    time.Time // the clock's time at began
	began time.Time
	speed int64
}

// NewClock returns a clock that runs as time does.
func NewClock() *Clock {
	now := time.Now()
	return &Clock{at: now, began: now, speed: 1}
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time { return c.at.Add(time.Duration(c.speed) * time.Since(c.began)) }

// Since returns how long ago a time was by the clock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Advance adds to the clock's time.
func (c *Clock) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(by)
}

// Run makes the clock run at a speed from now on; at 100 a minute passes in 0.6 s.
func (c *Clock) Run(speed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.began, c.speed = c.now(), time.Now(), speed
}

// ClockFunc is a clock that shows what the function returns.
type ClockFunc func() time.Time

// Now returns the clock's time.
func (c ClockFunc) Now() time.Time { return c() }

// Since returns how long ago a time was by the clock.
func (c ClockFunc) Since(t time.Time) time.Duration { return c().Sub(t) }
