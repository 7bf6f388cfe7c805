// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"drover.io/machine-controller/internal/goldentest"
)

// goldenRollout is a rollout with one line per tick. In each tick the planner acts,
// then the MachineSet controllers do, and then Machines come and go. Unless a
// case defines otherwise, new Machines become available one tick after they
// appeared, and deleted ones are gone one tick later.
type goldenRollout struct {
	replicas           int32
	surge, unavailable string
	olds               []int32 // sizes of the sets a, b, …; the last letter is wanted
	onDelete           bool
	ticks              int
	// events happen before the planner acts in their tick.
	events map[int]event
	// broken lists the templates whose Machines never become available.
	broken string
}

type event struct {
	line string
	do   func(*simulator)
}

func goldenRollouts() map[string]goldenRollout {
	three := []int32{3}
	return map[string]goldenRollout{
		"surge":             {replicas: 3, surge: "1", unavailable: "0", olds: three},
		"unavailable":       {replicas: 3, surge: "0", unavailable: "1", olds: three},
		"surge-and-percent": {replicas: 6, surge: "50%", unavailable: "25%", olds: []int32{6}},
		"two-old-sets":      {replicas: 6, surge: "2", unavailable: "0", olds: []int32{2, 4}},
		"scale-to-zero": {replicas: 4, surge: "1", unavailable: "0", olds: []int32{4}, events: map[int]event{
			3: {"spec.replicas becomes 0", func(w *simulator) { w.resize(0) }},
		}},
		"scale-up-after-proof": {replicas: 3, surge: "1", unavailable: "0", olds: three, events: map[int]event{
			3: {"spec.replicas becomes 6", func(w *simulator) { w.resize(6) }},
		}},
		"scale-up-of-a-broken-rollout": {replicas: 3, surge: "1", unavailable: "0", olds: three, broken: "b", ticks: 8, events: map[int]event{
			3: {"spec.replicas becomes 6", func(w *simulator) { w.resize(6) }},
		}},
		"scale-down-of-a-broken-rollout": {replicas: 6, surge: "3", unavailable: "0", olds: []int32{6}, broken: "b", ticks: 8, events: map[int]event{
			3: {"spec.replicas becomes 3", func(w *simulator) { w.resize(3) }},
		}},
		"broken-template-and-back": {replicas: 5, surge: "1", unavailable: "2", olds: []int32{5}, broken: "b", events: map[int]event{
			6: {"template a is wanted again", func(w *simulator) { w.template = "a" }},
		}},
		"change-of-mind": {replicas: 4, surge: "1", unavailable: "1", olds: []int32{4}, events: map[int]event{
			3: {"template c is wanted", func(w *simulator) { w.template = "c" }},
		}},
		"deadlock": {replicas: 3, surge: "1", unavailable: "0", olds: three, events: map[int]event{
			3: {"Machine 2 of the old set breaks", func(w *simulator) { w.machines[1].available = false }},
		}},
		"autoscaler-scales-down-the-new-set": {replicas: 6, surge: "1", unavailable: "0", olds: []int32{6}, events: map[int]event{
			7: {"the autoscaler picks Machine 8, which is new", func(w *simulator) { w.pickAndScaleDown(8) }},
		}},
		"pause-and-scale": {replicas: 6, surge: "2", unavailable: "0", olds: []int32{6}, events: map[int]event{
			3: {"paused, spec.replicas becomes 12", func(w *simulator) { w.resize(12); w.paused = true }},
			7: {"resumed", func(w *simulator) { w.paused = false }},
		}},
		"on-delete": {replicas: 3, surge: "1", unavailable: "0", olds: three, onDelete: true, events: map[int]event{
			3: {"Machine 2 is deleted by hand", func(w *simulator) { w.deleteByHand(2) }},
			6: {"Machines 1 and 3 are deleted by hand", func(w *simulator) { w.deleteByHand(1, 3) }},
		}},
		"on-delete-scale-down": {replicas: 4, surge: "1", unavailable: "0", olds: []int32{4}, onDelete: true, ticks: 5, events: map[int]event{
			3: {"spec.replicas becomes 2", func(w *simulator) { w.resize(2) }},
		}},
	}
}

func (w *simulator) pickAndScaleDown(id int) {
	for i := range w.machines {
		w.machines[i].annotated = w.machines[i].annotated || w.machines[i].id == id
	}
	w.resize(w.replicas - 1)
}

func (w *simulator) deleteByHand(ids ...int) {
	for i := range w.machines {
		w.machines[i].deleting = w.machines[i].deleting || slices.Contains(ids, w.machines[i].id)
	}
}

// fixedPicker always picks the same.
type fixedPicker struct{ n int }

func (u fixedPicker) pick(n int) int { return min(u.n, n-1) }

// run runs a rollout until nothing changes any more.
func (s goldenRollout) run(c picker, shuffled bool) string {
	w := newSimulator(c, s.replicas, new(intstr.Parse(s.surge)), new(intstr.Parse(s.unavailable)))
	w.onDelete, w.guaranteedOrder = s.onDelete, true
	for i, n := range s.olds {
		w.addSet(string(rune('a'+i)), n)
	}
	w.template = string(rune('a' + len(s.olds)))
	var out strings.Builder
	for tick := 1; tick <= 60; tick++ {
		before := w.line()
		if e, ok := s.events[tick]; ok {
			fmt.Fprintf(&out, "   %s\n", e.line)
			w.withFixedPicker(e.do)
		}
		s.progressMachines(w, shuffled)
		w.log()
		w.syncCaches()
		keep := -1
		if shuffled {
			keep = 1 + w.pick(4)
		}
		d := w.plan(keep)
		for i := range w.sets {
			w.machineSet(i, -1)
		}
		if w.failure != nil {
			return w.failure.Error()
		}
		fmt.Fprintf(&out, "%2d %s%s\n", tick, w.line(), describe(d))
		if rest := before == w.line() && len(d.Actions) == 0; d.Complete && rest && tick > s.lastEvent() || tick == s.ticks {
			break
		}
	}
	return out.String()
}

func (s goldenRollout) lastEvent() int {
	last := 0
	for tick := range s.events {
		last = max(last, tick)
	}
	return last
}

// withFixedPicker runs an event without the random choices of resize.
func (w *simulator) withFixedPicker(do func(*simulator)) {
	picker := w.picker
	w.picker = fixedPicker{1}
	do(w)
	w.picker = picker
}

// progressMachines makes Machines available and completes deletions; shuffled, only
// some of them.
func (s goldenRollout) progressMachines(w *simulator, shuffled bool) {
	late := func() bool { return shuffled && w.pick(2) == 0 }
	w.machines = slices.DeleteFunc(w.machines, func(m simMachine) bool { return m.deleting && !late() })
	for i := range w.machines {
		m := &w.machines[i]
		if m.id > int(s.total()) && !strings.HasSuffix(m.set, "-"+s.broken) && !late() {
			m.available = true
		}
	}
}

func (s goldenRollout) total() int32 {
	sum := int32(0)
	for _, n := range s.olds {
		sum += n
	}
	return sum
}

// line shows each set as name, wanted/existing, and a mark per Machine.
func (w *simulator) line() string {
	var parts []string
	for _, set := range w.sets {
		marks := ""
		for _, m := range w.machines {
			switch {
			case m.set != set.name:
			case m.deleting:
				marks += "x"
			case m.available:
				marks += "●"
			default:
				marks += "○"
			}
		}
		parts = append(parts, fmt.Sprintf("%s %d[%s]", strings.TrimPrefix(set.name, "ms-"), set.spec, marks))
	}
	return strings.Join(parts, "  ")
}

// describe describes a decision.
func describe(d Decision) string {
	var words []string
	for _, i := range d.Actions {
		name := strings.TrimPrefix(i.Set, "ms-")
		switch i.Kind {
		case Scale:
			words = append(words, fmt.Sprintf("%s %d→%d: %s", name, i.From, i.To, i.Reason))
		case CreateCurrent:
			words = append(words, fmt.Sprintf("create with %d: %s", i.To, i.Reason))
		case Record:
		default:
			words = append(words, fmt.Sprintf("%s %s", i.Kind, name))
		}
	}
	if d.Wait != (Wait{}) {
		words = append(words, fmt.Sprintf("%s: %s", d.Wait.On, d.Wait.Message))
	}
	if d.Complete {
		words = append(words, "complete")
	}
	if len(words) == 0 {
		return ""
	}
	return "  | " + strings.Join(words, " | ")
}

func TestGoldenRollouts(t *testing.T) {
	t.Parallel()
	for name, test := range goldenRollouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goldentest.Compare(t, name, test.run(fixedPicker{}, false))
		})
	}
}

// TestShuffledRolloutsComplete runs the rollouts with writes that are lost or applied in
// another order, and Machines that take their time, from a fixed seed.
func TestShuffledRolloutsComplete(t *testing.T) {
	t.Parallel()
	for name, test := range goldenRollouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				text := test.run(seededPicker{rand.New(rand.NewPCG(seed, 0))}, true)
				if test.ticks == 0 && !strings.HasSuffix(text, "complete\n") {
					t.Fatalf("seed %d does not complete:\n%s", seed, text)
				}
			}
		})
	}
}
