// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"strings"
	"testing"

	"drover.io/machine-controller/internal/goldentest"
	"drover.io/machine-controller/internal/safety/policy"
)

// step is an event, and then a number of ticks.
type step struct {
	title string
	do    func(*simulator)
	ticks int
}

type goldenRun struct {
	policy  func(*policy.Settings)
	sizes   map[string]int
	domains []string
	steps   []step
	// maxDeleted is how many Machines may be deleted in the whole run.
	maxDeleted int
}

func goldenRuns() map[string]goldenRun {
	fifty := map[string]int{"a": 50}
	return map[string]goldenRun{
		"most-nodes-not-ready": {sizes: fifty, maxDeleted: 1, steps: []step{
			{"40 of 50 Nodes go NotReady: the network's fault", func(w *simulator) { w.makeUnhealthy(40, "") }, 3},
			{"the network is back", func(w *simulator) { w.makeHealthy() }, 1},
			{"one Machine stays unhealthy", func(w *simulator) { w.makeUnhealthy(1, "") }, 4},
		}},
		"one-by-one": {sizes: map[string]int{"a": 8}, maxDeleted: 3, steps: []step{
			{"3 of 8 Machines become unhealthy", func(w *simulator) { w.makeUnhealthy(3, "") }, 8},
		}},
		"a-zone-goes": {sizes: map[string]int{"a": 6, "b": 6}, domains: []string{"x", "y", "z"}, maxDeleted: 1, steps: []step{
			{"failure domain x goes", func(w *simulator) { w.makeUnhealthy(12, "x"); w.domains = []string{"y", "z"} }, 2},
			{"a Machine in y becomes unhealthy, too", func(w *simulator) { w.makeUnhealthy(1, "y") }, 4},
		}},
		"broken-image": {sizes: map[string]int{"a": 4}, maxDeleted: 3, steps: []step{
			{"2 of 4 Machines become unhealthy, and new ones no longer join", func(w *simulator) {
				w.settings.StopAbove = policy.Percent(50)
				w.joins = func(Machine) bool { return false }
				w.makeUnhealthy(2, "")
			}, 4},
			{"the image is mended; a health check gives up on the Machine that did not join", func(w *simulator) {
				w.machines[len(w.machines)-1].Unhealthy = true
				w.joins = func(m Machine) bool { return !m.Unhealthy }
			}, 6},
		}},
		"overshoot": {sizes: map[string]int{"a": 5}, steps: []step{
			{"another client creates 3 Machines too many", func(w *simulator) { w.createForeign(3) }, 1},
			{"spec.replicas becomes 12", func(w *simulator) { w.resize(12) }, 2},
			{"a MachineSet takes itself for empty", func(w *simulator) { w.emptyCache = true }, 2},
		}},
		"unreachable": {sizes: map[string]int{"a": 8}, maxDeleted: 1, steps: []step{
			{"the workload API server is unreachable for a moment: the connection remains", func(w *simulator) { w.blocked = unreachable }, 1},
			{"the workload API server is gone; a Node was NotReady just before; spec.replicas becomes 9", func(w *simulator) {
				w.makeUnhealthy(1, "")
				w.resize(9)
				w.blocked = unreachable
			}, 3},
			{"it is back", func(w *simulator) { w.blocked = nil }, 5},
		}},
		"pending": {sizes: map[string]int{"a": 2}, policy: func(p *policy.Settings) { p.Name, p.PendingPerOwner = "careful", 3 }, steps: []step{
			{"spec.replicas becomes 10", func(w *simulator) { w.resize(10) }, 4},
		}},
	}
}

func (w *simulator) makeUnhealthy(n int, domain string) {
	for i := range w.machines {
		if n > 0 && w.machines[i].healthy() && (domain == "" || w.machines[i].Domain == domain) {
			w.machines[i].Unhealthy = true
			n--
		}
	}
}

func (w *simulator) makeHealthy() {
	for i := range w.machines {
		w.machines[i].Unhealthy = w.machines[i].Replaced
	}
}

func (w *simulator) resize(n int) {
	owner := w.owners["a"]
	owner.Desired = n
	w.owners["a"] = owner
}

// createForeign creates Machines past the Gate.
func (w *simulator) createForeign(n int) {
	for range n {
		w.create("a")
	}
}

// unreachable is what package safety refuses with while the workload cluster cannot be reached.
var unreachable = &Refusal{ReasonUnreachable, "The workload cluster cannot be reached, so nothing is created or replaced until it can: API server 10.0.0.1: no answer in time"}

func (s goldenRun) run(t *testing.T) string {
	settings := policy.Default()
	if s.policy != nil {
		s.policy(&settings)
	}
	w := newSimulator(settings, s.sizes, s.domains...)
	var out strings.Builder
	tick := 0
	for _, step := range s.steps {
		fmt.Fprintf(&out, "   %s\n", step.title)
		step.do(w)
		for range step.ticks {
			tick++
			fmt.Fprintf(&out, "%2d %s\n", tick, w.line())
			for _, owner := range sortedKeys(w.owners) {
				words := append(w.remediate(owner), w.grow(owner)...)
				for _, text := range words {
					fmt.Fprintf(&out, "   %s %s\n", owner, text)
				}
			}
			w.tick()
		}
	}
	fmt.Fprintf(&out, "%2d %s\n", tick+1, w.line())
	if w.deleted > s.maxDeleted {
		t.Errorf("%d Machines were deleted, at most %d may be", w.deleted, s.maxDeleted)
	}
	return out.String()
}

func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	for name, test := range goldenRuns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goldentest.Compare(t, name, test.run(t))
		})
	}
}
