// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Pace spaces out what may wait: after one step for an object the next is due a period later. The
// first step, and any after a rest, is due at once. The zero value with a Clock and a Period is ready.
type Pace struct {
	Clock clock.PassiveClock
	// Period between two steps for one object.
	Period time.Duration

	mu     sync.Mutex
	last   map[types.UID]time.Time
	pruned time.Time
}

// Due is how long the next step for an object has to wait; zero or less means that it is due.
func (p *Pace) Due(uid types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[uid]
	if !ok {
		return 0
	}
	return p.Period - p.Clock.Since(last)
}

// Took notes that a step for an object was taken.
func (p *Pace) Took(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	if p.last == nil {
		p.last = map[types.UID]time.Time{}
	}
	p.last[uid] = now
	if now.Sub(p.pruned) < p.Period {
		return
	}
	p.pruned = now
	for each, last := range p.last {
		if now.Sub(last) >= p.Period {
			delete(p.last, each)
		}
	}
}
