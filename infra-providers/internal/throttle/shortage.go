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
	// Cause is the last error of the cloud: InsufficientCapacityError or QuotaExceededError.
	Cause error
	Until time.Time
	// Left is the time until then; zero for a place that is not put aside.
	Left time.Duration
}

// shortage is the record of one.
type shortage struct {
	backoff
	cause error
}

// Shortage returns whether the place of a configuration is put aside. It does not prevent the call: a caller whose
// earlier creation may have succeeded must create again all the same.
func (t *Throttle[C]) Shortage(config C) Shortage {
	at := t.place(config)
	known, _ := t.shortages.Get(at)
	return Shortage{Place: at, Cause: known.cause, Until: known.until, Left: known.left(t.options.Now())}
}

// recordShortage puts a place aside, for longer each time that it has no room again soon after that.
func (t *Throttle[C]) recordShortage(config C, err error) {
	if t.options.Place == nil {
		return
	}
	at := t.place(config)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.shortages.Delete(at)
	case driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err):
		known, _ := t.shortages.Get(at)
		known.cause = err
		// Many machines may be refused at once; that is one shortage, not many.
		if now := t.options.Now(); known.left(now) == 0 {
			known.grow(now, asideMin, asideMax, t.options.Jitter())
		}
		// A shortage that comes later has nothing to do with this one, and begins with the shortest time again.
		t.shortages.SetUntil(at, known, known.until.Add(asideMax))
	}
}

func (t *Throttle[C]) place(config C) Place {
	if t.options.Place == nil {
		return Place{}
	}
	instanceType, zone := t.options.Place(config)
	return Place{instanceType, zone}
}
