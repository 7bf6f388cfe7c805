// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/workload"
)

var update = flag.Bool("update", false, "rewrite the golden stories")

// step of a story: what happens, and then a number of ticks.
type step struct {
	title  string
	do    func(*simulator)
	ticks int
}

type goldenRun struct {
	policy  func(*Policy)
	sizes   map[string]int
	domains []string
	steps    []step
	// maxDeleted is how many Machines may be deleted in the whole story.
	maxDeleted int
}

func goldenRuns() map[string]goldenRun {
	fifty := map[string]int{"a": 50}
	return map[string]goldenRun{
		"meltdown": {sizes: fifty, maxDeleted: 1, steps: []step{
			{"40 of 50 Nodes go NotReady: the network's fault", func(w *simulator) { w.makeUnhealthy(40, "") }, 3},
			{"the network is back", func(w *simulator) { w.makeHealthy() }, 1},
			{"one Machine really dies", func(w *simulator) { w.makeUnhealthy(1, "") }, 4},
		}},
		"one-by-one": {sizes: map[string]int{"a": 8}, maxDeleted: 3, steps: []step{
			{"3 of 8 Machines die", func(w *simulator) { w.makeUnhealthy(3, "") }, 8},
		}},
		"a-zone-goes": {sizes: map[string]int{"a": 6, "b": 6}, domains: []string{"x", "y", "z"}, maxDeleted: 1, steps: []step{
			{"failure domain x goes", func(w *simulator) { w.makeUnhealthy(12, "x"); w.domains = []string{"y", "z"} }, 2},
			{"a Machine in y dies, too", func(w *simulator) { w.makeUnhealthy(1, "y") }, 4},
		}},
		"broken-image": {sizes: map[string]int{"a": 4}, maxDeleted: 3, steps: []step{
			{"2 of 4 Machines die, and new ones no longer join", func(w *simulator) {
				w.policy.StopAbove = Percent(50)
				w.joins = func(Machine) bool { return false }
				w.makeUnhealthy(2, "")
			}, 4},
			{"the image is mended; a health check gives up on the Machine that did not join", func(w *simulator) {
				w.machines[len(w.machines)-1].Unhealthy = true
				w.joins = func(m Machine) bool { return !m.Unhealthy }
			}, 6},
		}},
		"overshoot": {sizes: map[string]int{"a": 5}, steps: []step{
			{"somebody else creates Machines, 3 more than wanted", func(w *simulator) { w.createForeign(3) }, 1},
			{"spec.replicas becomes 12", func(w *simulator) { w.resize(12) }, 2},
			{"a MachineSet takes itself for empty", func(w *simulator) { w.emptyCache = true }, 2},
		}},
		"unreachable": {sizes: map[string]int{"a": 8}, maxDeleted: 1, steps: []step{
			{"the workload API server is silent for a moment: the connection stands", func(w *simulator) {
				w.connection(workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}, ConsecutiveFailures: 2})
			}, 1},
			{"the workload API server is gone; a Node was NotReady just before; spec.replicas becomes 9", func(w *simulator) {
				w.makeUnhealthy(1, "")
				w.resize(9)
				w.connection(workload.State{Message: "API server 10.0.0.1: no answer in time"})
			}, 3},
			{"it is back", func(w *simulator) {
				w.connection(workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}})
			}, 5},
		}},
		"pending": {sizes: map[string]int{"a": 2}, policy: func(p *Policy) { p.Name, p.PendingPerOwner = "careful", 3 }, steps: []step{
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

func (w *simulator) connection(state workload.State) { w.blocked = workloadUnreachable(true, state) }

func (s goldenRun) run(t *testing.T) string {
	policy := Default()
	if s.policy != nil {
		s.policy(&policy)
	}
	w := newSimulator(policy, s.sizes, s.domains...)
	var out strings.Builder
	tick := 0
	for _, act := range s.steps {
		fmt.Fprintf(&out, "   %s\n", act.title)
		act.do(w)
		for range act.ticks {
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
	for name, story := range goldenRuns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareGolden(t, name, story.run(t))
		})
	}
}

// TestGoldenFreeze tells how an overshoot freezes a owner and how it thaws, minute by minute.
func TestGoldenFreeze(t *testing.T) {
	t.Parallel()
	owner := Owner{Title: `MachineDeployment "a"`, Desired: 5, Surge: 1}
	input := FreezeInput{Owner: owner, Now: noon, Period: time.Minute}
	var out strings.Builder
	for _, step := range []struct {
		after time.Duration
		alive int
		word  string
	}{
		{0, 5, ""}, {time.Minute, 9, ""}, {30 * time.Second, 8, ""}, {20 * time.Second, 9, ""}, {30 * time.Second, 9, ""}, {30 * time.Second, 9, ""},
		{time.Minute, 8, ""}, {time.Minute, 7, ""}, {time.Minute, 8, ""}, {time.Minute, 9, ""}, {time.Minute, 9, ""},
		{time.Minute, 9, "false"}, {time.Hour, 9, "false"}, {time.Minute, 9, ""}, {time.Minute, 9, ""}, {time.Minute, 5, "true"}, {time.Minute, 5, ""},
	} {
		input.Now = input.Now.Add(step.after)
		input.Machines, input.Value, input.Order = step.alive, step.word, policyv1.FreezeUnset
		if step.word != "" {
			input.Order = policyv1.FreezeOrderOf(map[string]string{policyv1.FreezeAnnotation: step.word})
		}
		decision := Gate{Default()}.Freeze(input)
		fmt.Fprintf(&out, "%s %d Machines", input.Now.Format(time.TimeOnly), step.alive)
		if step.word != "" {
			fmt.Fprintf(&out, ", drover.io/freeze: %q", step.word)
		}
		if decision.Frozen() {
			fmt.Fprintf(&out, " | %s: %s", decision.Reason, decision.Message)
		}
		if decision.RequeueAfter > 0 {
			fmt.Fprintf(&out, " | looks again after %s", decision.RequeueAfter)
		}
		out.WriteString("\n")
		input.Labelled, input.OvershootSince = decision.Label, decision.OvershootSince
	}
	compareGolden(t, "freeze", out.String())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden story (go test -update writes it): %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}
