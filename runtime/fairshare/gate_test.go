// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"testing"
	"time"
)

// gate has four workers.
func gate(late, maxWait time.Duration) *Gate {
	g := NewGate(4)
	g.late, g.maxWait = late, maxWait
	return g
}

// enter begins as many turns as there are for a holder at once.
func enter(g *Gate, holder string) (leave []func()) {
	for {
		end, ok := g.Enter(holder)
		if !ok {
			return leave
		}
		leave = append(leave, end)
	}
}

// TestGateLimitsTurnsThatHangToAShare: others find some, and the next of the same holder is refused.
func TestGateLimitsTurnsThatHangToAShare(t *testing.T) {
	t.Parallel()
	g := gate(0, time.Hour) // every turn is late at once
	a, b, c := enter(g, "a"), enter(g, "b"), enter(g, "c")
	if len(a) != 2 || len(b) != 1 || len(c) != 1 {
		t.Errorf("the first holder has %d, the second %d, the third %d; want 2, 1, 1", len(a), len(b), len(c))
	}
	for _, leave := range append(a, a...) { // leaving twice ends one turn
		leave()
	}
	if again := enter(g, "d"); len(again) != 1 {
		t.Errorf("a fourth holder has %d of the two that are free, want 1", len(again))
	}
	if len(g.turns["a"]) != 0 || len(g.turns) != 3 {
		t.Errorf("remembered are the turns of %d holders", len(g.turns))
	}
}

// TestGateWaitsForShortTurns: a holder alone loses nothing but time.
func TestGateWaitsForShortTurns(t *testing.T) {
	t.Parallel()
	g := gate(time.Hour, time.Hour)
	first, _ := g.Enter("a")
	if _, ok := g.Enter("a"); !ok {
		t.Fatal("a holder alone does not have half")
	}
	entered := make(chan bool)
	go func() {
		_, ok := g.Enter("a")
		entered <- ok
	}()
	first()
	if !<-entered {
		t.Error("the end of a turn was not waited for")
	}
}

// TestGateWaitsForALimitedTime: a worker that waits is of no use.
func TestGateWaitsForALimitedTime(t *testing.T) {
	t.Parallel()
	g := gate(time.Hour, 0)
	if all := enter(g, "a"); len(all) != 2 {
		t.Errorf("a holder alone has %d of four", len(all))
	}
	if leave, ok := (*Gate)(nil).Enter("a"); !ok || leave == nil {
		t.Error("the nil Gate refuses")
	}
}

// TestOneWaitsForASlowTurn: the others are refused, also while that one waits.
func TestOneWaitsForASlowTurn(t *testing.T) {
	t.Parallel()
	g := gate(time.Hour, time.Hour)
	g.slow = 0
	first, _ := g.Enter("a")
	_, _ = g.Enter("a")
	entered := make(chan bool)
	for range 3 {
		go func() {
			_, ok := g.Enter("a")
			entered <- ok
		}()
	}
	for range 2 {
		if <-entered {
			t.Error("more than one waits, or none is refused")
		}
	}
	first()
	if !<-entered {
		t.Error("the one that waited has not entered")
	}
	if len(g.waiting) != 0 {
		t.Errorf("counted as waiting are %v", g.waiting)
	}
}

// TestSlowTurnsDelayNoNeighbour: ten workers, and a queue as a controller has it. One namespace has 300 objects whose
// turns take 0.9 s each, because its API server answers that late: less than what counts as late. The only object of another
// namespace is behind them.
func TestSlowTurnsDelayNoNeighbour(t *testing.T) {
	t.Parallel()
	const workers, objects = 10, 300
	gate := NewGate(workers)
	queue := make(chan string, 100*objects)
	for range objects {
		queue <- "slow"
	}
	queue <- "neighbour"
	began, done := time.Now(), make(chan time.Duration, 1)
	stop := make(chan struct{})
	defer close(stop)
	for range workers {
		go func() {
			for {
				var of string
				select {
				case of = <-queue:
				case <-stop:
					return
				}
				leave, ok := gate.Enter(of)
				if !ok {
					time.AfterFunc(5*time.Second, func() { queue <- of }) // busyRetry
					continue
				}
				if of == "neighbour" {
					done <- time.Since(began)
				} else {
					time.Sleep(900 * time.Millisecond)
				}
				leave()
			}
		}()
	}
	if waited := <-done; waited > 2*time.Second {
		t.Errorf("the neighbour's object waited %s for %d objects of another namespace", waited.Round(100*time.Millisecond), objects)
	}
}
