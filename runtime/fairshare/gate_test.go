// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newGate(workers int) (*Gate, *clocktesting.FakePassiveClock) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	return NewGate(workers, clk), clk
}

// enter begins as many turns as there are for a holder at once.
func enter(g *Gate, holder string) (leave []func()) {
	for {
		end, _ := g.Enter(holder, fmt.Sprint(len(leave)))
		if end == nil {
			return leave
		}
		leave = append(leave, end)
	}
}

func TestGateLimitsAHolderToItsShare(t *testing.T) {
	t.Parallel()
	g, _ := newGate(4)
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
}

// TestTwoTurnsOfOneObjectEnd: the second ends after the gate has forgotten the holder, or beside a turn of another object.
func TestTwoTurnsOfOneObjectEnd(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		g, clk := newGate(0)
		first, _ := g.Enter("a", "1")
		second, _ := g.Enter("a", "1")
		for i := range others {
			g.Enter("a", fmt.Sprint("other", i))
		}
		clk.SetTime(epoch.Add(time.Second))
		first()
		second()
		if h := g.holders["a"]; len(g.holders) != others || h != nil && h.average > time.Second {
			t.Errorf("with %d others, %d holders are kept: %+v", others, len(g.holders), h)
		}
	}
}

func TestNilGateRefusesNone(t *testing.T) {
	t.Parallel()
	if leave, _ := (*Gate)(nil).Enter("a", "1"); leave == nil {
		t.Error("it refuses")
	}
}

// TestRefusedObjectsReturnInOrder: two turns of 400 ms end each 200 ms.
func TestRefusedObjectsReturnInOrder(t *testing.T) {
	t.Parallel()
	g, clk := newGate(4)
	enter(g, "a")
	clk.SetTime(epoch.Add(400 * time.Millisecond))
	for i, want := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond} {
		if _, got := g.Enter("a", fmt.Sprint("waits", i)); got != want {
			t.Errorf("object %d is due after %s, want %s", i, got, want)
		}
	}
	clk.SetTime(epoch.Add(500 * time.Millisecond))
	if _, got := g.Enter("a", "waits1"); got != 300*time.Millisecond {
		t.Errorf("an object that came back early is due after %s, want 300ms", got)
	}
}

func TestObjectsOfAHolderThatHangsReturnSeldom(t *testing.T) {
	t.Parallel()
	g, clk := newGate(4)
	enter(g, "a")
	clk.SetTime(epoch.Add(time.Hour))
	for i := range 3 {
		if _, got := g.Enter("a", fmt.Sprint("waits", i)); got != maxRetry {
			t.Errorf("object %d is due after %s, want %s", i, got, maxRetry)
		}
	}
}

// TestGateForgetsObjectsThatAreDeleted: these never come back.
func TestGateForgetsObjectsThatAreDeleted(t *testing.T) {
	t.Parallel()
	g, clk := newGate(2)
	leave := enter(g, "a")
	g.Enter("a", "deleted")
	leave[0]()
	if len(g.holders) != 1 {
		t.Fatalf("known are %d holders, want the one with an object that is due", len(g.holders))
	}
	clk.SetTime(epoch.Add(2 * sweepPeriod))
	end, _ := g.Enter("b", "1")
	if g.holders["a"] != nil {
		t.Error("a holder without objects is remembered")
	}
	end()
	if len(g.holders) != 0 {
		t.Errorf("remembered are %d holders without objects", len(g.holders))
	}
}

// simulation is a controller whose queue and workers run on simulated time.
type simulation struct {
	gate    *Gate
	clk     *clocktesting.FakePassiveClock
	workers int
	// events are what happens later, in any order.
	events []event
	queue  []object
	// attempts is how often an object was taken from the queue.
	attempts int
	// ended is when the turn of an object ended.
	ended map[object]time.Duration
}

type object struct {
	holder, name string
	takes        time.Duration
}

type event struct {
	at  time.Time
	run func()
}

func newSimulation(workers int) *simulation {
	gate, clk := newGate(workers)
	return &simulation{gate: gate, clk: clk, workers: workers, ended: map[object]time.Duration{}}
}

// add puts objects of a holder into the queue, whose turns take so long each.
func (s *simulation) add(holder string, n int, takes time.Duration) {
	for i := range n {
		s.queue = append(s.queue, object{holder, fmt.Sprint(i), takes})
	}
}

func (s *simulation) after(d time.Duration, run func()) {
	s.events = append(s.events, event{s.clk.Now().Add(d), run})
}

// run ends when every object had its turn.
func (s *simulation) run() {
	for {
		for s.workers > 0 && len(s.queue) > 0 {
			next := s.queue[0]
			s.queue = s.queue[1:]
			s.attempt(next)
		}
		if len(s.events) == 0 {
			return
		}
		i := 0
		for j := range s.events {
			if s.events[j].at.Before(s.events[i].at) {
				i = j
			}
		}
		next := s.events[i]
		s.events = slices.Delete(s.events, i, i+1)
		s.clk.SetTime(next.at)
		next.run()
	}
}

func (s *simulation) attempt(o object) {
	s.attempts++
	leave, retryAfter := s.gate.Enter(o.holder, o.name)
	if leave == nil {
		s.after(retryAfter, func() { s.queue = append(s.queue, o) })
		return
	}
	s.workers--
	s.after(o.takes, func() {
		leave()
		s.workers++
		s.ended[o] = s.clk.Since(epoch)
	})
}

// TestSlowTurnsDelayNoNeighbour: the only object of one namespace is in the queue behind 300 of another, whose API server
// answers late.
func TestSlowTurnsDelayNoNeighbour(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{50 * time.Millisecond, 900 * time.Millisecond, 30 * time.Second} {
		s := newSimulation(10)
		s.add("slow", 300, takes)
		s.add("neighbour", 1, time.Millisecond)
		s.run()
		if waited := s.ended[object{"neighbour", "0", time.Millisecond}]; waited != time.Millisecond {
			t.Errorf("the neighbour's object waited %s for turns of %s", waited, takes)
		}
	}
}

// TestAHolderAloneLosesLittle: compared with half of the workers that are always busy.
func TestAHolderAloneLosesLittle(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		const workers, objects = 20, 1000
		s := newSimulation(workers)
		s.add("alone", objects, takes)
		s.run()
		best := objects * takes / (workers / 2)
		if took := s.clk.Since(epoch); len(s.ended) != objects || took > best*5/4+2*minRetry {
			t.Errorf("%d turns of %s took %s, and at best %s", len(s.ended), takes, took, best)
		}
		if each := float64(s.attempts) / objects; each > 4+takes.Seconds()*10 {
			t.Errorf("turns of %s: %.1f attempts each", takes, each)
		}
	}
}
