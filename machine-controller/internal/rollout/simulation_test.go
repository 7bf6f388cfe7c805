// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"flag"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var runs = flag.Int("rollout.runs", 1, "how many simulations to run per combination of replicas, surge, unavailable and MachineSets")

// seeded chooses from a fixed seed.
type seeded struct{ *rand.Rand }

func (s seeded) pick(n int) int { return s.IntN(n) }

// drawn lets rapid choose, so that a failure is shrunk.
type drawn struct{ *rapid.T }

func (d drawn) pick(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "pick") }

// fences are the values of maxSurge and maxUnavailable that are tried.
func fences() []*intstr.IntOrString {
	var all []*intstr.IntOrString
	for n := range 4 {
		all = append(all, new(intstr.FromInt(n)))
	}
	for _, percent := range []string{"0%", "1%", "20%", "25%", "34%", "50%", "75%", "100%"} {
		all = append(all, new(intstr.FromString(percent)))
	}
	return all
}

// populate spreads the Machines over some old sets, as a rollout may have left
// them, and then wants another template.
func populate(w *world, sets int) {
	left := w.replicas
	for i := range sets - 1 {
		n := int32(w.pick(int(left) + 1))
		if i == sets-2 {
			n = left
		}
		w.addSet(string(rune('a'+i)), n)
		left -= n
	}
	w.template = string(rune('a' + sets - 1))
	w.catchUp()
}

// simulate runs one life of a MachineDeployment.
func simulate(w *world, steps int, t turmoil) error {
	for range steps {
		w.step(t)
		if w.broken != nil {
			return w.broken
		}
	}
	w.calm()
	return w.broken
}

// scenario is a kind of life that is tried with every size.
type scenario struct {
	turmoil
	onDelete bool
	// adversary lets MachineSets delete available Machines first.
	adversary bool
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"it rolls out": {adversary: true},
		"it rolls out in the promised deletion order": {},
		"it survives failures":                        {adversary: true, turmoil: turmoil{failures: true}},
		"it follows changes of mind":                  {adversary: true, turmoil: turmoil{changes: true}},
		"it follows changes of mind through failures": {adversary: true, turmoil: turmoil{changes: true, failures: true}},
		"it follows resizes":                          {turmoil: turmoil{resizes: true}},
		"it follows everything at once":               {turmoil: turmoil{changes: true, failures: true, resizes: true}},
		"it waits for deletions":                      {onDelete: true, turmoil: turmoil{failures: true}},
		"it waits for deletions through changes":      {onDelete: true, turmoil: turmoil{failures: true, changes: true}},
		"it waits for deletions and follows resizes":  {onDelete: true, turmoil: turmoil{failures: true, resizes: true}},
	}
}

func (s scenario) run(w *world, sets, steps int) error {
	w.onDelete, w.trustOrder = s.onDelete, !s.adversary
	w.ceiling, w.floor = w.bounds()
	populate(w, sets)
	return simulate(w, steps, s.turmoil)
}

func TestRolloutsOfEverySize(t *testing.T) {
	t.Parallel()
	for name, scenario := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for run := range *runs {
				for replicas := range int32(11) {
					for _, surge := range fences() {
						for _, unavailable := range fences() {
							for sets := 2; sets <= 3; sets++ {
								w := newWorld(seeded{rand.New(rand.NewPCG(uint64(run), uint64(steps)))}, replicas, surge, unavailable)
								err := scenario.run(w, sets, 150)
								if err != nil {
									t.Fatalf("replicas %d, surge %s, unavailable %s, %d sets, run %d, step %d: %v", replicas, surge, unavailable, sets, run, w.steps, err)
								}
								steps += w.steps
							}
						}
					}
				}
			}
			t.Logf("%d steps", steps)
		})
	}
}

func TestAnyRollout(t *testing.T) {
	t.Parallel()
	for name, scenario := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(drawn{t},
					rapid.Int32Range(0, 10).Draw(t, "replicas"),
					rapid.SampledFrom(fences()).Draw(t, "surge"),
					rapid.SampledFrom(fences()).Draw(t, "unavailable"))
				sets := rapid.IntRange(2, 3).Draw(t, "sets")
				if err := scenario.run(w, sets, rapid.IntRange(0, 150).Draw(t, "steps")); err != nil {
					t.Fatalf("at step %d: %v", w.steps, err)
				}
			})
		})
	}
}
