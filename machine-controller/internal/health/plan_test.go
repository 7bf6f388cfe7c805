// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// some are n targets of one group, each in the state and created a minute after the other.
func some(n int, state State, change ...func(*Target)) []Target {
	all := make([]Target, n)
	for i := range all {
		all[i] = Target{
			Name:    fmt.Sprintf("%s-%d", state, i),
			Finding: Finding{State: state},
			Group:   "md",
			Created: noon.Add(time.Duration(i-60) * time.Minute),
		}
		for _, each := range change {
			each(&all[i])
		}
	}
	return all
}

func in(zone string) func(*Target) {
	return func(t *Target) { t.Zone, t.Name = zone, zone+"-"+t.Name }
}
func asMarked(t *Target)  { t.Marked, t.Holds = true, true }
func asHolding(t *Target) { t.Holds = true }
func asOrdered(t *Target) {
	t.Name, t.Finding.Reason = "ordered", clusterv1.MachineHealthCheckHasRemediateAnnotationReason
}

func all(groups ...[]Target) []Target {
	var targets []Target
	for _, each := range groups {
		targets = append(targets, each...)
	}
	return targets
}

func TestPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		targets []Target
		group   Group
		trigger *Trigger
		want    Decision
	}{
		"does nothing about healthy ones": {
			targets: some(3, Healthy), group: Group{Limit: 2},
			want: Decision{Expected: 3, Healthy: 3, Allowed: 2},
		},
		"replaces the newest within the budget": {
			targets: all(some(5, Healthy), some(3, Unhealthy)), group: Group{Limit: 2},
			want: Decision{
				Expected: 8, Healthy: 5, Unhealthy: 3, Full: []string{"md"},
				Remediate: map[string]bool{"Unhealthy-2": true, "Unhealthy-1": true},
				Held:      map[string]WaitReason{"Unhealthy-0": BudgetExhausted},
			},
		},
		"replaces what a person ordered first": {
			targets: all(some(1, Unhealthy, asOrdered), some(2, Unhealthy)), group: Group{Limit: 1},
			want: Decision{
				Expected: 3, Unhealthy: 3, Full: []string{"md"}, Remediate: map[string]bool{"ordered": true},
				Held: map[string]WaitReason{"Unhealthy-0": BudgetExhausted, "Unhealthy-1": BudgetExhausted},
			},
		},
		"replaces none while others are being replaced": {
			targets: some(1, Unhealthy), group: Group{Limit: 1, InFlight: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Full: []string{"md"}, Held: map[string]WaitReason{"Unhealthy-0": BudgetExhausted}},
		},
		"keeps its marks": {
			targets: some(2, Unhealthy, asMarked), group: Group{Limit: 2, InFlight: 2},
			want: Decision{Expected: 2, Unhealthy: 2, Remediate: map[string]bool{"Unhealthy-0": true, "Unhealthy-1": true}},
		},
		"keeps the place of a replacement that fails": {
			targets: some(1, Unhealthy, asHolding), group: Group{Limit: 1, InFlight: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Remediate: map[string]bool{"Unhealthy-0": true}},
		},
		"keeps the places of replacements that fail when the budget has shrunk": {
			targets: some(2, Unhealthy, asHolding), group: Group{Limit: 1, InFlight: 2},
			want: Decision{Expected: 2, Unhealthy: 2, Remediate: map[string]bool{"Unhealthy-0": true, "Unhealthy-1": true}},
		},
		"replaces none with a budget of zero": {
			targets: some(1, Unhealthy, asHolding), group: Group{Limit: 0, InFlight: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Full: []string{"md"}, Held: map[string]WaitReason{"Unhealthy-0": BudgetExhausted}},
		},
		"takes marks back when too many are unhealthy": {
			targets: all(some(1, Unhealthy, asMarked), some(2, Suspect)), group: Group{Limit: 3, InFlight: 1}, trigger: &Trigger{Most: 2},
			want: Decision{Expected: 3, Unhealthy: 3, Restricted: true, Held: map[string]WaitReason{"Unhealthy-0": OutsideTrigger}},
		},
		"waits for the least of a range": {
			targets: some(2, Unhealthy), group: Group{Limit: 3}, trigger: &Trigger{Least: 3, Most: 5},
			want: Decision{Expected: 2, Unhealthy: 2, Restricted: true, Held: map[string]WaitReason{"Unhealthy-0": OutsideTrigger, "Unhealthy-1": OutsideTrigger}},
		},
		"does not count Machines that start or leave as unhealthy": {
			targets: all(some(1, Unhealthy), some(4, Starting), some(4, Deleting)), group: Group{Limit: 3}, trigger: &Trigger{Most: 1},
			want: Decision{Expected: 9, Unhealthy: 1, Remediate: map[string]bool{"Unhealthy-0": true}},
		},
		"stops in a zone that is down, and goes on elsewhere": {
			targets: all(some(2, Unhealthy, in("a")), some(1, Unhealthy, in("b")), some(1, Healthy, in("b"))), group: Group{Limit: 9},
			want: Decision{
				Expected: 4, Healthy: 1, Unhealthy: 3, Zones: []string{"a"}, Allowed: 8, Remediate: map[string]bool{"b-Unhealthy-0": true},
				Held: map[string]WaitReason{"a-Unhealthy-0": FailureDomainUnhealthy, "a-Unhealthy-1": FailureDomainUnhealthy},
			},
		},
		"takes a zone for down before the last timeout is over": {
			targets: all(some(1, Unhealthy, in("a")), some(1, Suspect, in("a")), some(1, Starting, in("a"))), group: Group{Limit: 9},
			want: Decision{Expected: 3, Unhealthy: 2, Zones: []string{"a"}, Allowed: 9, Held: map[string]WaitReason{"a-Unhealthy-0": FailureDomainUnhealthy}},
		},
		"does not take one Machine for a zone": {
			targets: some(1, Unhealthy, in("a")), group: Group{Limit: 9},
			want: Decision{Expected: 1, Unhealthy: 1, Allowed: 8, Remediate: map[string]bool{"a-Unhealthy-0": true}},
		},
		"does not take clouds without zones for one zone": {
			targets: some(2, Unhealthy), group: Group{Limit: 9},
			want: Decision{Expected: 2, Unhealthy: 2, Allowed: 7, Remediate: map[string]bool{"Unhealthy-0": true, "Unhealthy-1": true}},
		},
		"replaces what a person ordered in a zone that is down": {
			targets: all(some(1, Unhealthy, in("a")), some(1, Unhealthy, in("a"), asOrdered)), group: Group{Limit: 9},
			want: Decision{
				Expected: 2, Unhealthy: 2, Zones: []string{"a"}, Allowed: 8, Remediate: map[string]bool{"ordered": true},
				Held: map[string]WaitReason{"a-Unhealthy-0": FailureDomainUnhealthy},
			},
		},
		"waits for the back-off": {
			targets: some(1, Unhealthy, asHolding, func(t *Target) { t.NotBefore = noon.Add(time.Minute) }), group: Group{Limit: 1, InFlight: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Held: map[string]WaitReason{"Unhealthy-0": BackOff}, Next: noon.Add(time.Minute)},
		},
		"does not make a person wait for the back-off": {
			targets: some(1, Unhealthy, asHolding, asOrdered, func(t *Target) { t.NotBefore = noon.Add(time.Minute) }), group: Group{Limit: 1, InFlight: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Remediate: map[string]bool{"ordered": true}},
		},
		"requests nothing for Machines without an owner": {
			targets: some(1, Unhealthy, func(t *Target) { t.Group = "" }), group: Group{Limit: 1},
			want: Decision{Expected: 1, Unhealthy: 1, Allowed: 1, Held: map[string]WaitReason{"Unhealthy-0": NoController}},
		},
		"looks again at the next deadline": {
			targets: all(
				some(1, Suspect, func(t *Target) { t.Finding.Until = noon.Add(3 * time.Minute) }),
				some(1, Starting, func(t *Target) { t.Finding.Until = noon.Add(2 * time.Minute) }),
			), group: Group{Limit: 1},
			want: Decision{Expected: 2, Unhealthy: 1, Allowed: 1, Next: noon.Add(2 * time.Minute)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trigger := Trigger{Most: -1}
			if test.trigger != nil {
				trigger = *test.trigger
			}
			got := Plan(PlanInput{Targets: test.targets, Groups: map[string]Group{"md": test.group}, Trigger: trigger, Now: noon})
			if test.want.Remediate == nil {
				test.want.Remediate = map[string]bool{}
			}
			if test.want.Held == nil {
				test.want.Held = map[string]WaitReason{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanKeepsBudgets draws situations and shows that whatever happens no pass marks more
// than the budget has places for, that each unhealthy Machine is either replaced or reported
// why not, and that nothing else is replaced.
func TestPlanKeepsBudgets(t *testing.T) {
	t.Parallel()
	states := []State{Healthy, Starting, Suspect, Unhealthy, Unhealthy, Unhealthy, Deleting, Unevaluated}
	rapid.Check(t, func(t *rapid.T) {
		s := PlanInput{Groups: map[string]Group{}, Now: noon}
		s.Trigger = Trigger{Least: rapid.IntRange(0, 2).Draw(t, "least"), Most: rapid.IntRange(-1, 30).Draw(t, "most")}
		holding := map[string]int{}
		for i := range rapid.IntRange(0, 30).Draw(t, "targets") {
			target := Target{
				Name:    fmt.Sprint(i),
				Finding: Finding{State: rapid.SampledFrom(states).Draw(t, "state")},
				Zone:    rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				Group:   rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group"),
				Holds:   rapid.Bool().Draw(t, "holds"),
			}
			target.Marked = target.Holds && rapid.Bool().Draw(t, "marked")
			if rapid.IntRange(0, 5).Draw(t, "ordered") == 0 && target.Finding.State == Unhealthy {
				target.Finding.Reason = clusterv1.MachineHealthCheckHasRemediateAnnotationReason
			}
			if rapid.Bool().Draw(t, "early") {
				target.NotBefore = noon.Add(time.Minute)
			}
			if target.Holds {
				holding[target.Group]++
			}
			s.Targets = append(s.Targets, target)
		}
		for _, name := range []string{"x", "y"} {
			s.Groups[name] = Group{
				Limit:    rapid.IntRange(0, 6).Draw(t, "limit"),
				InFlight: holding[name] + rapid.IntRange(0, 3).Draw(t, "elsewhere"),
			}
		}
		d := Plan(s)
		after := map[string]int{"x": s.Groups["x"].InFlight, "y": s.Groups["y"].InFlight}
		for _, target := range s.Targets {
			_, held := d.Held[target.Name]
			switch {
			case target.Finding.State != Unhealthy && (held || d.Remediate[target.Name]):
				t.Fatalf("%s, which is %s, is held %t, replaced %t", target.Name, target.Finding.State, held, d.Remediate[target.Name])
			case target.Finding.State == Unhealthy && held == d.Remediate[target.Name]:
				t.Fatalf("%s is held %t, replaced %t", target.Name, held, d.Remediate[target.Name])
			case d.Remediate[target.Name] && target.Group == "":
				t.Fatalf("%s is not replaced", target.Name)
			case d.Remediate[target.Name] && !target.Holds:
				after[target.Group]++
			}
			if d.Remediate[target.Name] && !target.Finding.Requested() && s.Trigger.Most >= 0 && d.Unhealthy > s.Trigger.Most {
				t.Fatalf("%s is replaced while %d are unhealthy, more than %d", target.Name, d.Unhealthy, s.Trigger.Most)
			}
		}
		for name, g := range s.Groups {
			if after[name] > max(g.Limit, g.InFlight) {
				t.Fatalf("group %s: %d in flight, at most %d allowed, %d before", name, after[name], g.Limit, g.InFlight)
			}
		}
		if d.Allowed < 0 {
			t.Fatalf("%d more allowed", d.Allowed)
		}
	})
}
