// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"time"

	"drover.io/infra-providers/driver"
)

// Place is an instance type in a zone.
type Place struct{ InstanceType, Zone string }

// Shortage is why, and for how long, a place is put aside. The zero value is none.
type Shortage struct {
	Place Place
	// Cause is what the cloud said last: InsufficientCapacityError or QuotaExceededError.
	Cause error
	Until time.Time
	// Left is the time until then; zero for a place that is not put aside.
	Left time.Duration
}

// shortage is what is remembered of one.
type shortage struct {
	backoff
	cause error
}

// Shortage tells whether the place of a configuration is put aside. It spares nobody the call: whose
// earlier creation may have succeeded must ask again all the same.
func (t *Throttle[C]) Shortage(config C) Shortage {
	at := t.place(config)
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.aside[at]
	if known == nil {
		return Shortage{Place: at}
	}
	return Shortage{Place: at, Cause: known.cause, Until: known.until, Left: known.left(t.options.Now())}
}

// remember puts a place aside, for longer each time that it is short again after that.
func (t *Throttle[C]) remember(config C, err error) {
	if t.options.Place == nil {
		return
	}
	at := t.place(config)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		delete(t.aside, at)
	case driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err):
		known := t.aside[at]
		if known == nil {
			known = &shortage{}
			t.aside[at] = known
		}
		known.cause = err
		now := t.options.Now()
		if now.Sub(known.until) > asideMax {
			known.backoff = backoff{} // this has nothing to do with the last time
		}
		// Many machines may be refused at once; that is one shortage, not many.
		if known.left(now) == 0 {
			known.grow(now, asideMin, asideMax, t.options.Jitter())
		}
	}
}

func (t *Throttle[C]) place(config C) Place {
	if t.options.Place == nil {
		return Place{}
	}
	instanceType, zone := t.options.Place(config)
	return Place{instanceType, zone}
}
