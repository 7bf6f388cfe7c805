// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"sync"
	"time"
)

const (
	// late is how long a turn may last before others of its holder do not wait for it.
	late = time.Second
	// slow is how long a turn may last before only one other of its holder waits for it: each that waits occupies a worker.
	slow = 100 * time.Millisecond
	// maxWait is how long a turn is waited for.
	maxWait = 200 * time.Millisecond
)

// Gate divides the workers of a controller among holders, such as namespaces, as Seats divides seats. Turns that are
// short are waited for, so that a holder alone loses little. While one of a holder's turns is slow, one other waits for it,
// and while one is late, because what it calls hangs, none does: the others of that holder are refused at once, and occupy no
// worker. The nil Gate refuses none.
type Gate struct {
	late, slow, maxWait time.Duration
	seats               *Seats[string]

	mu sync.Mutex
	// turns have when each turn of a holder began.
	turns map[string]map[*time.Time]struct{}
	// waiting are how many turns of a holder wait for others of it.
	waiting map[string]int
	// ended is closed, and replaced, when a turn ends.
	ended chan struct{}
}

// NewGate returns a gate for so many workers; zero is no limit.
func NewGate(workers int) *Gate {
	return &Gate{
		late: late, slow: slow, maxWait: maxWait, seats: New[string](workers),
		turns: map[string]map[*time.Time]struct{}{}, waiting: map[string]int{}, ended: make(chan struct{}),
	}
}

// Enter begins a turn, which leave ends. It reports false, and leave is nil, where the holder has its share: come back
// later, with seconds between.
func (g *Gate) Enter(holder string) (leave func(), ok bool) {
	if g == nil {
		return func() {}, true
	}
	var given <-chan time.Time
	for {
		leave, ended := g.try(holder, given != nil)
		switch {
		case leave != nil:
			return leave, true
		case ended == nil:
			return nil, false
		case given == nil:
			timer := time.NewTimer(g.maxWait)
			defer timer.Stop()
			given = timer.C
			defer g.stopWaiting(holder)
		}
		select {
		case <-ended:
		case <-given:
			return nil, false
		}
	}
}

// try begins a turn if there is a seat. Otherwise it returns what is closed when a turn ends, and counts one that waits
// for it unless it is counted already; nil where it must not wait.
func (g *Gate) try(holder string, waits bool) (leave func(), ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	began := time.Now()
	if g.seats.Acquire(holder) {
		if g.turns[holder] == nil {
			g.turns[holder] = map[*time.Time]struct{}{}
		}
		g.turns[holder][&began] = struct{}{}
		return sync.OnceFunc(func() { g.leave(holder, &began) }), nil
	}
	for other := range g.turns[holder] {
		switch age := began.Sub(*other); {
		case age >= g.late, age >= g.slow && !waits && g.waiting[holder] > 0:
			return nil, nil
		}
	}
	if !waits {
		g.waiting[holder]++
	}
	return nil, g.ended
}

// stopWaiting counts one turn of a holder less that waits.
func (g *Gate) stopWaiting(holder string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting[holder]--; g.waiting[holder] <= 0 {
		delete(g.waiting, holder)
	}
}

func (g *Gate) leave(holder string, turn *time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats.Release(holder)
	if delete(g.turns[holder], turn); len(g.turns[holder]) == 0 {
		delete(g.turns, holder)
	}
	close(g.ended)
	g.ended = make(chan struct{})
}
