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
	// patience is how long a turn is waited for.
	patience = 200 * time.Millisecond
)

// Gate divides the workers of a controller among holders, such as namespaces, as Places divides places. Turns that are
// short are waited for, so that a holder alone loses little; while one of a holder's turns is late, because what it calls
// hangs, others of that holder are refused at once, and occupy no worker. The nil Gate refuses none.
type Gate struct {
	late, patience time.Duration
	places         *Places[string]

	mu sync.Mutex
	// turns have when each turn of a holder began.
	turns map[string]map[*time.Time]struct{}
	// ended is closed, and replaced, when a turn ends.
	ended chan struct{}
}

// NewGate returns a gate for so many workers; zero is no limit.
func NewGate(workers int) *Gate {
	return &Gate{
		late: late, patience: patience, places: New[string](workers),
		turns: map[string]map[*time.Time]struct{}{}, ended: make(chan struct{}),
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
		leave, ended := g.try(holder)
		switch {
		case leave != nil:
			return leave, true
		case ended == nil:
			return nil, false
		case given == nil:
			timer := time.NewTimer(g.patience)
			defer timer.Stop()
			given = timer.C
		}
		select {
		case <-ended:
		case <-given:
			return nil, false
		}
	}
}

// try begins a turn if there is a place. Otherwise it returns what is closed when a turn ends; nil where waiting for that
// makes no sense.
func (g *Gate) try(holder string) (leave func(), ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	began := time.Now()
	if g.places.Take(holder) {
		if g.turns[holder] == nil {
			g.turns[holder] = map[*time.Time]struct{}{}
		}
		g.turns[holder][&began] = struct{}{}
		return sync.OnceFunc(func() { g.leave(holder, &began) }), nil
	}
	for other := range g.turns[holder] {
		if began.Sub(*other) >= g.late {
			return nil, nil
		}
	}
	return nil, g.ended
}

func (g *Gate) leave(holder string, turn *time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places.Give(holder)
	if delete(g.turns[holder], turn); len(g.turns[holder]) == 0 {
		delete(g.turns, holder)
	}
	close(g.ended)
	g.ended = make(chan struct{})
}
