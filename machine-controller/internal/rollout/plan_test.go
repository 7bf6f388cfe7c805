// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// set is a MachineSet with n available Machines that has followed ten replicas.
func set(name string, n int32, change ...func(*Set)) Set {
	s := Set{Name: name, Replicas: n, Machines: n, Reported: n, Available: n, Recorded: SizeAnnotations{10, 11}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func isCurrent(s *Set) { s.Current = true }

// sizesOf lists what a plan has, without reasons and annotated.
func sizesOf(d Decision) []string {
	var all []string
	for _, i := range d.Actions {
		switch i.Kind {
		case Record:
		case Scale:
			all = append(all, fmt.Sprintf("%s %d→%d", i.Set, i.From, i.To))
		case CreateCurrent:
			all = append(all, fmt.Sprintf("create %d", i.To))
		default:
			all = append(all, fmt.Sprintf("%s %s", i.Kind, i.Set))
		}
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	surge1 := Limits{Surge: 1}
	marked := func(n int32) func(*Set) { return func(s *Set) { s.DeleteAnnotated = n } }
	for name, test := range map[string]struct {
		state State
		want  []string
		wait  WaitReason
	}{
		"it creates the current set and leaves the old ones alone until it exists": {
			state: State{Replicas: 10, Limits: Limits{Surge: 2, Unavailable: 3}, Sets: []Set{set("a", 10)}},
			want:  []string{"create 2"},
		},
		"it takes no decrease from the record of an empty set": {
			state: State{Replicas: 2, Limits: surge1, Sets: []Set{
				set("a", 0, func(s *Set) { s.Recorded = SizeAnnotations{5, 6} }),
				set("b", 3, isCurrent, marked(2), func(s *Set) { s.Recorded = SizeAnnotations{3, 4} }),
			}},
			want: []string{"b 3→2"},
		},
		"it creates all at once if there is nothing old": {
			state: State{Replicas: 10, Limits: surge1},
			want:  []string{"create 10"},
		},
		"it decides nothing while a write is not in the cache": {
			state: State{Replicas: 10, Limits: surge1, Unseen: []string{"b"}, Sets: []Set{set("a", 10)}},
			wait:  WaitingForCache,
		},
		"it deletes all sets of a deployment that is being deleted": {
			state: State{Replicas: 10, Deleting: true, Unseen: []string{"b"}, Sets: []Set{set("a", 10), set("b", 1, func(s *Set) { s.Terminating = true })}},
			want:  []string{"Delete a"},
		},
		"it takes a decrease from the annotated Machine, even of the current set in a rollout": {
			state: State{Replicas: 9, Limits: surge1, Sets: []Set{set("a", 5), set("b", 5, isCurrent, marked(1))}},
			want:  []string{"b 5→4"},
		},
		"it takes a decrease from annotated Machines of several sets": {
			state: State{Replicas: 8, Limits: surge1, Sets: []Set{set("a", 5, marked(1)), set("b", 5, isCurrent, marked(1))}},
			want:  []string{"a 5→4", "b 5→4"},
		},
		"it does not count missing Machines for annotated ones": {
			state: State{Replicas: 9, Limits: surge1, Sets: []Set{set("a", 10, isCurrent, marked(1), func(s *Set) { s.Machines, s.Reported, s.Available = 8, 8, 8 })}},
			want:  []string{"a 10→7"},
		},
		"it does not act on an annotation alone": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 10, isCurrent, marked(3))}},
		},
		"it follows a plain decrease at once": {
			state: State{Replicas: 4, Limits: surge1, Sets: []Set{set("a", 10, isCurrent)}},
			want:  []string{"a 10→4"},
		},
		"it takes annotated Machines first from the old sets in a rollout": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 3), set("b", 3, marked(1)), set("c", 5, isCurrent)}},
			want:  []string{"b 3→2"},
		},
		"it takes bad Machines before old ones": {
			state: State{Replicas: 10, Limits: Limits{Surge: 1, Unavailable: 1}, Sets: []Set{set("a", 3), set("b", 3, func(s *Set) { s.Available = 2 }), set("c", 5, isCurrent)}},
			want:  []string{"b 3→2"},
		},
		"it counts Machines that are being deleted as gone": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 5, func(s *Set) { s.Machines, s.Reported, s.Deleting = 6, 6, 1 }), set("b", 5, isCurrent)}},
			wait:  WaitingForMachineSet,
		},
		"it removes the replicas of Machines that a user deletes": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 5, func(s *Set) { s.Available, s.Deleting = 4, 1 }), set("b", 6, isCurrent)}},
			want:  []string{"a 5→4"},
		},
		"it stops while new Machines are not available": {
			state: State{Replicas: 10, Limits: Limits{Surge: 1, Unavailable: 2}, Sets: []Set{set("a", 8), set("b", 3, isCurrent, func(s *Set) { s.Available = 0 })}},
			wait:  WaitingForNewMachines,
		},
		"it does not count on growth to save Machines that are about to go": {
			state: State{Replicas: 10, Limits: Limits{Surge: 2, Unavailable: 3}, Sets: []Set{
				set("a", 5),
				set("b", 3, func(s *Set) { s.Machines, s.Reported, s.Available, s.Recorded = 5, 5, 5, SizeAnnotations{8, 10} }),
				set("c", 1, isCurrent, func(s *Set) { s.Available = 0 })}},
			want: []string{"a 5→4", "c 1→2"},
		},
		"it does not surge while an old set has not reacted": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 5, func(s *Set) { s.Unobserved = true }), set("b", 5, isCurrent)}},
			wait:  WaitingForMachineSet,
		},
		"it counts all Machines of a set that is being deleted as lost": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 5, func(s *Set) { s.Terminating = true }), set("b", 5), set("c", 1, isCurrent)}},
			wait:  WaitingForMachineSet,
		},
		"it treats a second set of the wanted template as old": {
			state: State{Replicas: 5, Limits: surge1, Sets: []Set{set("a", 5, isCurrent), set("b", 1, isCurrent)}},
			want:  []string{"b 1→0"},
		},
		"it cannot exceed zero replicas by surge": {
			state: State{Replicas: 0, Limits: surge1, Sets: []Set{set("a", 2), set("b", 0, isCurrent)}},
			want:  []string{"a 2→0"},
		},
		"it keeps as many empty sets as the history limit, the latest revisions": {
			state: State{Replicas: 10, Limits: surge1, HistoryLimit: 1, Sets: []Set{
				set("a", 0, func(s *Set) { s.Revision = 3 }), set("b", 0, func(s *Set) { s.Revision = 1 }), set("c", 0, func(s *Set) { s.Revision = 2 }), set("d", 10, isCurrent)}},
			want: []string{"Delete b", "Delete c"},
		},
		"it deletes nothing before the rollout is complete": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 0), set("b", 10, isCurrent, func(s *Set) { s.Available = 9 })}},
		},
		"it enables creation again after OnDelete": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 5, func(s *Set) { s.CreateDisabled = true }), set("b", 6, isCurrent, func(s *Set) { s.CreateDisabled = true })}},
			want:  []string{"EnableCreate a", "EnableCreate b", "a 5→4"},
		},
		"it keeps the missing replicas of an old set until that can create no more": {
			state: State{Replicas: 10, Strategy: clusterv1.OnDeleteMachineDeploymentStrategyType, Sets: []Set{
				set("a", 5, func(s *Set) { s.Machines, s.Reported, s.Available = 4, 4, 4 }),
				set("b", 3, func(s *Set) {
					s.Machines, s.Reported, s.Available, s.CreateDisabled, s.Unobserved = 2, 2, 2, true, true
				}),
				set("c", 2, isCurrent)}},
			want: []string{"DisableCreate a"},
			wait: WaitingForMachineSet,
		},
		"it gives up the missing replicas of an old set that can create no more": {
			state: State{Replicas: 10, Strategy: clusterv1.OnDeleteMachineDeploymentStrategyType, Sets: []Set{
				set("a", 5, func(s *Set) { s.Machines, s.Reported, s.Available, s.CreateDisabled = 4, 4, 4, true }), set("b", 5, isCurrent)}},
			want: []string{"a 5→4"},
		},
		"it forbids old sets to create together with making the current one": {
			state: State{Replicas: 10, Strategy: clusterv1.OnDeleteMachineDeploymentStrategyType, Sets: []Set{set("a", 9), set("b", 1, func(s *Set) { s.CreateDisabled = true })}},
			want:  []string{"DisableCreate a", "create 0"},
		},
		"it forbids old sets to create while held before the current one exists": {
			state: State{Replicas: 10, Strategy: clusterv1.OnDeleteMachineDeploymentStrategyType, Blocked: "unreachable", Sets: []Set{set("a", 10)}},
			want:  []string{"DisableCreate a"},
			wait:  WaitBlocked,
		},
		"it enables creation by old sets before the current one exists": {
			state: State{Replicas: 10, Limits: surge1, Sets: []Set{set("a", 10, func(s *Set) { s.CreateDisabled = true })}},
			want:  []string{"EnableCreate a", "create 1"},
		},
		"it grows only the current set if that was made for the increase": {
			state: State{Replicas: 6, Limits: Limits{Surge: 6}, Sets: []Set{
				set("a", 3, func(s *Set) { s.Recorded = SizeAnnotations{3, 9} }),
				set("b", 6, isCurrent, func(s *Set) { s.Machines, s.Reported, s.Available, s.Recorded = 0, 0, 0, SizeAnnotations{6, 12} })}},
			wait: WaitingForNewMachines,
		},
		"it grows the old set if the increase came after the current one": {
			state: State{Replicas: 6, Limits: Limits{Surge: 6}, Sets: []Set{
				set("a", 3, func(s *Set) { s.Recorded = SizeAnnotations{3, 9} }),
				set("b", 3, isCurrent, func(s *Set) { s.Available, s.Recorded = 0, SizeAnnotations{3, 9} })}},
			want: []string{"a 3→6", "b 3→6"},
		},
		"it breaks a deadlock at the expense of a set with unavailable Machines": {
			state: State{Replicas: 4, Limits: surge1, Sets: []Set{
				set("a", 2, func(s *Set) { s.Recorded = SizeAnnotations{4, 5} }),
				set("b", 2, func(s *Set) { s.Available, s.Recorded = 1, SizeAnnotations{4, 5} }),
				set("c", 1, isCurrent, func(s *Set) { s.Recorded = SizeAnnotations{4, 5} })}},
			want: []string{"b 2→1"},
		},
		"it breaks no deadlock while the new Machines are not available": {
			state: State{Replicas: 3, Limits: surge1, Sets: []Set{
				set("a", 3, func(s *Set) { s.Available, s.Recorded = 2, SizeAnnotations{3, 4} }),
				set("b", 1, isCurrent, func(s *Set) { s.Available, s.Recorded = 0, SizeAnnotations{3, 4} })}},
			wait: WaitingForNewMachines,
		},
		"it does not roll out while paused": {
			state: State{Replicas: 10, Limits: surge1, Paused: true, Sets: []Set{set("a", 10), set("b", 1, isCurrent)}},
			wait:  WaitPaused,
		},
		"it does not roll out while held": {
			state: State{Replicas: 10, Limits: Limits{Surge: 1, Unavailable: 1}, Blocked: "unreachable", Sets: []Set{set("a", 10), set("b", 1, isCurrent)}},
			wait:  WaitBlocked,
		},
		"it does not break a deadlock while held": {
			state: State{Replicas: 2, Limits: surge1, Blocked: "unreachable", Sets: []Set{set("a", 2, func(s *Set) { s.Available = 1 }), set("b", 1, isCurrent)}},
			wait:  WaitBlocked,
		},
		"it makes no MachineSet while held": {
			state: State{Replicas: 10, Limits: surge1, Blocked: "unreachable", Sets: []Set{set("a", 10)}},
			wait:  WaitBlocked,
		},
		"it follows a decrease while held": {
			state: State{Replicas: 4, Limits: surge1, Blocked: "unreachable", Sets: []Set{set("a", 10, isCurrent)}},
			want:  []string{"a 10→4"},
		},
		"it follows a decrease in the middle of a rollout that is held": {
			state: State{Replicas: 4, Limits: surge1, Blocked: "unreachable", Sets: []Set{set("a", 8), set("b", 3, isCurrent)}},
			want:  []string{"a 8→2"},
			wait:  WaitBlocked,
		},
		"it follows a decrease while held before the current set exists": {
			state: State{Replicas: 4, Limits: surge1, Blocked: "unreachable", Sets: []Set{set("a", 10)}},
			want:  []string{"a 10→5"},
			wait:  WaitBlocked,
		},
		"it shrinks in proportion while paused": {
			state: State{Replicas: 5, Limits: surge1, Paused: true, Sets: []Set{set("a", 8), set("b", 3, isCurrent)}},
			want:  []string{"a 8→4", "b 3→2"},
			wait:  WaitPaused,
		},
		"it follows only the sets that have not followed while paused": {
			state: State{Replicas: 20, Limits: Limits{Surge: 2}, Paused: true, Sets: []Set{set("a", 16, func(s *Set) { s.Recorded = SizeAnnotations{20, 22} }), set("b", 3, isCurrent)}},
			want:  []string{"b 3→6"},
			wait:  WaitPaused,
		},
		"it fills the set there is while paused without a current one": {
			state: State{Replicas: 12, Limits: surge1, Paused: true, Sets: []Set{set("a", 0), set("b", 10)}},
			want:  []string{"b 10→12"},
			wait:  WaitPaused,
		},
		"it grows the current set while paused under OnDelete": {
			state: State{Replicas: 12, Strategy: clusterv1.OnDeleteMachineDeploymentStrategyType, Paused: true, Sets: []Set{set("a", 10, func(s *Set) { s.CreateDisabled = true }), set("b", 0, isCurrent)}},
			want:  []string{"b 0→2"},
			wait:  WaitPaused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.state.Sets {
				test.state.Sets[i].Created = time.Unix(int64(i), 0)
			}
			got := Plan(test.state)
			if diff := cmp.Diff(test.want, sizesOf(got)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wait, got.Wait.On); diff != "" {
				t.Errorf("wait (-want +got):\n%s", diff)
			}
			for _, i := range got.Actions {
				if i.Reason == "" {
					t.Errorf("%s of %q has no reason", i.Kind, i.Set)
				}
			}
		})
	}
}

func TestMinSize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set   Set
		slack int32
		want  int32
	}{
		"it gives up nothing without slack":                                 {set("a", 3), 0, 3},
		"it gives up what slack allows":                                     {set("a", 3), 2, 1},
		"it gives up all for enough slack":                                  {set("a", 3), 3, 0},
		"it gives up unavailable Machines with the last available one":      {set("a", 3, func(s *Set) { s.Available = 1 }), 1, 0},
		"it gives up all once the worst case is all lost, even without any": {set("a", 2, func(s *Set) { s.Available, s.Reported = 1, 3 }), 0, 0},
		"it gives up a set that is being deleted":                           {set("a", 3, func(s *Set) { s.Terminating = true }), -1, 0},
		"it gives up only missing replicas below slack":                     {set("a", 3, func(s *Set) { s.Machines, s.Reported, s.Available = 2, 2, 2 }), -1, 2},
		"it keeps what may have been created and is not seen":               {set("a", 3, func(s *Set) { s.Machines, s.Reported, s.Available, s.Unobserved = 2, 2, 2, true }), 2, 3},
		"it counts on what is seen in full of a set that lags":              {set("a", 2, func(s *Set) { s.Unobserved = true }), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &setPlan{Set: test.set, target: test.set.Replicas}
			if got := e.minSize(test.slack); got != test.want {
				t.Errorf("lowest is %d, want %d", got, test.want)
			}
		})
	}
}

func TestPlanStamps(t *testing.T) {
	t.Parallel()
	state := State{Replicas: 12, Limits: Limits{Surge: 1}, Sets: []Set{
		set("empty", 0), set("leaving", 0, func(s *Set) { s.Machines, s.Reported, s.Deleting = 1, 1, 1 }), set("b", 10, isCurrent),
	}}
	got := Plan(state)
	want := []Action{
		{Kind: Record, Set: "leaving", Reason: "the size of the MachineDeployment changed"},
		{Kind: Scale, Set: "b", From: 10, To: 12, Reason: "11 of at most 13 Machines exist"},
	}
	if diff := cmp.Diff(want, got.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(SizeAnnotations{Desired: 12, Max: 13}, got.SizeAnnotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestEveryState plans every state of one old and one current set, in small,
// and checks the worst case that each plan allows.
func TestEveryState(t *testing.T) {
	t.Parallel()
	var shapes []Set
	for replicas := range int32(4) {
		for machines := range int32(5) {
			for deleting := range min(machines, 2) + 1 {
				for available := range machines - deleting + 1 {
					shapes = append(shapes, Set{Replicas: replicas, Machines: machines, Reported: machines, Deleting: deleting, Available: available})
				}
			}
		}
	}
	states := 0
	annotated := []SizeAnnotations{{}, {Desired: 1, Max: 2}}
	for replicas := range int32(5) {
		for _, limits := range []Limits{{Surge: 1}, {Unavailable: 1}, {Surge: 1, Unavailable: 1}, {Surge: 2, Unavailable: 1}, {Surge: 1, Unavailable: 3}} {
			for _, old := range shapes {
				for _, cur := range shapes {
					for _, annotations := range annotated {
						old.Name, cur.Name, cur.Current = "old", "current", true
						old.Recorded, cur.Recorded = annotations, annotations
						state := State{Replicas: replicas, Limits: limits, Sets: []Set{old, cur}}
						if err := violation(state, Plan(state)); err != nil {
							t.Fatalf("%v\nstate: %+v", err, state)
						}
						states++
					}
				}
			}
		}
	}
	t.Logf("%d states", states)
}
