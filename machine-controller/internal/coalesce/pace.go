// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// pruning is how often objects that are due anyway are forgotten.
const pruning = time.Minute

// Pace spaces out what may wait: after one step for an object the next is due a period later. The
// first step, and any after a rest, is due at once. The zero value with a Clock and a Period is ready.
type Pace struct {
	Clock clock.PassiveClock
	// Period between two steps for one object.
	Period time.Duration

	mu     sync.Mutex
	next   map[types.UID]time.Time
	pruned time.Time
}

// Due is how long the next step for an object has to wait; zero or less means that it is due.
func (p *Pace) Due(uid types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.next[uid]
	if !ok {
		return 0
	}
	return next.Sub(p.Clock.Now())
}

// Took notes that a step for an object was taken.
func (p *Pace) Took(uid types.UID) { p.Rest(uid, p.Period) }

// Rest notes that a step for an object was taken after which the next has to wait that long.
func (p *Pace) Rest(uid types.UID, period time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	if p.next == nil {
		p.next = map[types.UID]time.Time{}
	}
	p.next[uid] = now.Add(period)
	if now.Sub(p.pruned) < pruning {
		return
	}
	p.pruned = now
	for each, next := range p.next {
		if !next.After(now) {
			delete(p.next, each)
		}
	}
}

// LookPeriod is how long, for each of its Machines, a fleet is not looked at again. A look costs some 5 µs for each, so
// that a fleet of any size costs 1 % of a core at most while it changes; up to 400 Machines the window is longer.
const LookPeriod = 500 * time.Microsecond

// Looks spaces out looks at large fleets.
type Looks struct{ Pace }

// Took notes that a fleet of so many Machines was looked at.
func (l *Looks) Took(uid types.UID, machines int) {
	if rest := time.Duration(machines)*LookPeriod - Window; rest > 0 {
		l.Rest(uid, rest)
	}
}
