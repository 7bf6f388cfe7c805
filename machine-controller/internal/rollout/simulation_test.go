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

// seededPicker chooses from a fixed seed.
type seededPicker struct{ *rand.Rand }

func (s seededPicker) pick(n int) int { return s.IntN(n) }

// rapidPicker picks by rapid, so that a failure is minimized.
type rapidPicker struct{ *rapid.T }

func (d rapidPicker) pick(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "pick") }

// limitValues are the values of maxSurge and maxUnavailable that are tried.
func limitValues() []*intstr.IntOrString {
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
// them, and then sets another template.
func populate(w *simulator, sets int) {
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
	w.syncCaches()
}

// simulate runs one life of a MachineDeployment.
func simulate(w *simulator, steps int, t disturbances) error {
	for range steps {
		w.step(t)
		if w.failure != nil {
			return w.failure
		}
	}
	w.settle()
	return w.failure
}

// scenario is a kind of life that is tried with every size.
type scenario struct {
	disturbances
	onDelete bool
	// worstOrder is whether MachineSets delete available Machines first.
	worstOrder bool
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"it rolls out": {worstOrder: true},
		"it rolls out in the guaranteed deletion order": {},
		"it continues after failures":                   {worstOrder: true, disturbances: disturbances{failures: true}},
		"it follows changes of mind":                    {worstOrder: true, disturbances: disturbances{changes: true}},
		"it follows changes of mind through failures":   {worstOrder: true, disturbances: disturbances{changes: true, failures: true}},
		"it follows resizes":                            {disturbances: disturbances{resizes: true}},
		"it follows everything at once":                 {disturbances: disturbances{changes: true, failures: true, resizes: true}},
		"it waits for deletions":                        {onDelete: true, disturbances: disturbances{failures: true}},
		"it waits for deletions through changes":        {onDelete: true, disturbances: disturbances{failures: true, changes: true}},
		"it waits for deletions and follows resizes":    {onDelete: true, disturbances: disturbances{failures: true, resizes: true}},
	}
}

func (s scenario) run(w *simulator, sets, steps int) error {
	w.onDelete, w.guaranteedOrder = s.onDelete, !s.worstOrder
	w.ceiling, w.floor = w.bounds()
	populate(w, sets)
	return simulate(w, steps, s.disturbances)
}

func TestRolloutsOfEverySize(t *testing.T) {
	t.Parallel()
	for name, scenario := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for run := range *runs {
				for replicas := range int32(11) {
					for _, surge := range limitValues() {
						for _, unavailable := range limitValues() {
							for sets := 2; sets <= 3; sets++ {
								w := newSimulator(seededPicker{rand.New(rand.NewPCG(uint64(run), uint64(steps)))}, replicas, surge, unavailable)
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
				w := newSimulator(rapidPicker{t},
					rapid.Int32Range(0, 10).Draw(t, "replicas"),
					rapid.SampledFrom(limitValues()).Draw(t, "surge"),
					rapid.SampledFrom(limitValues()).Draw(t, "unavailable"))
				sets := rapid.IntRange(2, 3).Draw(t, "sets")
				if err := scenario.run(w, sets, rapid.IntRange(0, 150).Draw(t, "steps")); err != nil {
					t.Fatalf("at step %d: %v", w.steps, err)
				}
			})
		})
	}
}
