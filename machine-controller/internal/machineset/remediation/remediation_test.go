// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/health"
)

// unhealthyMachine is a Machine created that many minutes after the hour.
func unhealthyMachine(name string, minute int, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	at := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at)}}
	for _, change := range changes {
		change(m)
	}
	return m
}

func healthCheckFailed(m *clusterv1.Machine) {
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Test"})
	}
}

func beingDeleted(m *clusterv1.Machine) { m.DeletionTimestamp = &m.CreationTimestamp }

func annotatedForRemediation(m *clusterv1.Machine) {
	m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
}

func replacementOf(name string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { health.SetReplacement(m, health.Replacement{Machine: name, Attempt: 1}) }
}

func names(machines []*clusterv1.Machine) []string {
	all := []string{}
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}

func TestCandidatesForRemediation(t *testing.T) {
	t.Parallel()
	waiting := Candidates([]*clusterv1.Machine{
		unhealthyMachine("well", 9),
		unhealthyMachine("old", 1, healthCheckFailed),
		unhealthyMachine("gone", 8, healthCheckFailed, beingDeleted),
		unhealthyMachine("twin-b", 3, healthCheckFailed),
		unhealthyMachine("twin-a", 3, healthCheckFailed),
		unhealthyMachine("ordered", 2, healthCheckFailed, annotatedForRemediation),
		unhealthyMachine("refused", 10, healthCheckFailed, replacementOf("gone"), func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{
				Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetMachineCannotBeRemediatedReason,
			})
		}),
		unhealthyMachine("exempt", 5, healthCheckFailed, func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
		}),
		unhealthyMachine("paused", 6, healthCheckFailed, func(m *clusterv1.Machine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }),
		unhealthyMachine("not-marked", 7, func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "Test"})
		}),
	})
	if diff := cmp.Diff([]string{"ordered", "twin-a", "twin-b", "old", "refused"}, names(waiting)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestCandidatesBeginWithReplacementsThatFailed has a budget of one: a replacement that failed before it settled holds the
// place until it is replaced itself, so no other Machine may come before it.
func TestCandidatesBeginWithReplacementsThatFailed(t *testing.T) {
	t.Parallel()
	candidates := Candidates([]*clusterv1.Machine{
		unhealthyMachine("newest", 9, healthCheckFailed),
		unhealthyMachine("annotated", 8, healthCheckFailed, annotatedForRemediation),
		unhealthyMachine("replacement", 1, healthCheckFailed, replacementOf("gone")),
	})
	if diff := cmp.Diff([]string{"replacement", "annotated", "newest"}, names(candidates)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestWithinBudget(t *testing.T) {
	t.Parallel()
	a, b, c := unhealthyMachine("a", 3, healthCheckFailed), unhealthyMachine("b", 2, healthCheckFailed), unhealthyMachine("c", 1, healthCheckFailed)
	tests := map[string]struct {
		others   []*clusterv1.Machine
		inFlight []health.InFlightReplacement
		limit    int
		now      []string
	}{
		"takes as many as there are places": {limit: 2, now: []string{"a", "b"}},
		"takes all within the limit":        {limit: 9, now: []string{"a", "b", "c"}},
		"takes none when none may":          {limit: 0, now: []string{}},
		"leaves a place to what is leaving": {limit: 2, others: []*clusterv1.Machine{unhealthyMachine("d", 1, healthCheckFailed, beingDeleted)}, now: []string{"a"}},
		"counts an unfilled replacement":    {limit: 2, inFlight: []health.InFlightReplacement{{Machine: "gone"}}, now: []string{"a"}},
		"leaves a place to a replacement":   {limit: 2, others: []*clusterv1.Machine{unhealthyMachine("d", 1, replacementOf("gone"))}, now: []string{"a"}},
		"takes none beyond the limit":       {limit: 1, inFlight: []health.InFlightReplacement{{Machine: "x"}, {Machine: "y"}}, now: []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting := []*clusterv1.Machine{a, b, c}
			now, wait := WithinBudget(waiting, append(test.others, waiting...), test.inFlight, test.limit)
			if diff := cmp.Diff(test.now, names(now)); diff != "" {
				t.Errorf("now (-want +got):\n%s", diff)
			}
			if len(now)+len(wait) != len(waiting) {
				t.Errorf("%d now and %d later make %d", len(now), len(wait), len(waiting))
			}
		})
	}
}

// TestWithinBudgetIsRecordable has a budget of more replacements than the annotations of a MachineSet can record.
func TestWithinBudgetIsRecordable(t *testing.T) {
	t.Parallel()
	waiting := make([]*clusterv1.Machine, 10_000)
	for i := range waiting {
		waiting[i] = unhealthyMachine(fmt.Sprintf("%063d", i), 1, healthCheckFailed)
	}
	now, _ := WithinBudget(waiting, waiting, nil, len(waiting))
	set, inFlight := &clusterv1.MachineSet{}, []health.InFlightReplacement(nil)
	for _, m := range now {
		inFlight = append(inFlight, health.InFlightReplacement{Machine: m.Name, Attempt: 1000, Newest: m.CreationTimestamp})
	}
	health.SetInFlightReplacements(set, inFlight)
	if err := apivalidation.ValidateAnnotationsSize(set.Annotations); len(now) == 0 || err != nil {
		t.Errorf("%d replacements: %v", len(now), err)
	}
}

func TestReplacements(t *testing.T) {
	t.Parallel()
	before := unhealthyMachine("", 5).CreationTimestamp
	first := health.InFlightReplacement{Machine: "a", Attempt: 1, Newest: before}
	second := health.InFlightReplacement{Machine: "b", Attempt: 2, Newest: before}
	tests := map[string]struct {
		machines []*clusterv1.Machine
		inFlight []health.InFlightReplacement
		want     map[string]health.Replacement
	}{
		"pairs a place with who came after": {
			machines: []*clusterv1.Machine{unhealthyMachine("older", 5), unhealthyMachine("new", 6)}, inFlight: []health.InFlightReplacement{first},
			want: map[string]health.Replacement{"new": {Machine: "a", Attempt: 1}},
		},
		"pairs each place with another": {
			machines: []*clusterv1.Machine{unhealthyMachine("new-2", 7), unhealthyMachine("new-1", 6)}, inFlight: []health.InFlightReplacement{first, second},
			want: map[string]health.Replacement{"new-1": {Machine: "a", Attempt: 1}, "new-2": {Machine: "b", Attempt: 2}},
		},
		"waits while the Machine is there": {
			machines: []*clusterv1.Machine{unhealthyMachine("a", 1, beingDeleted), unhealthyMachine("new", 6)}, inFlight: []health.InFlightReplacement{first},
		},
		"ends with a replacement": {
			machines: []*clusterv1.Machine{unhealthyMachine("new", 6, replacementOf("a")), unhealthyMachine("other", 7)}, inFlight: []health.InFlightReplacement{first},
		},
		"passes over what is leaving": {
			machines: []*clusterv1.Machine{unhealthyMachine("new", 6, beingDeleted)}, inFlight: []health.InFlightReplacement{first},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]health.Replacement{}
			for m, replacement := range Replacements(test.machines, test.inFlight) {
				got[m.Name] = replacement
			}
			if test.want == nil {
				test.want = map[string]health.Replacement{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("replacements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStillNeeded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machines []*clusterv1.Machine
		desired  int
		kept     int
	}{
		"keeps that of a Machine on its way out":                 {machines: []*clusterv1.Machine{unhealthyMachine("a", 1, beingDeleted)}, desired: 1, kept: 1},
		"keeps that of a Machine about to go":                    {machines: []*clusterv1.Machine{unhealthyMachine("a", 1, healthCheckFailed)}, desired: 1, kept: 1},
		"drops that of a Machine that may stay":                  {machines: []*clusterv1.Machine{unhealthyMachine("a", 1)}, desired: 1},
		"keeps that of a place to be filled":                     {machines: []*clusterv1.Machine{unhealthyMachine("z", 1)}, desired: 2, kept: 1},
		"keeps that of a place while a surplus takes long to go": {machines: []*clusterv1.Machine{unhealthyMachine("y", 0, beingDeleted), unhealthyMachine("x", 0, beingDeleted), unhealthyMachine("z", 1)}, desired: 2, kept: 1},
		"drops that of a place that is not needed":               {machines: []*clusterv1.Machine{unhealthyMachine("z", 1)}, desired: 1},
		"drops that of a place that was filled":                  {machines: []*clusterv1.Machine{unhealthyMachine("z", 1, replacementOf("a"))}, desired: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if kept := StillNeeded([]health.InFlightReplacement{{Machine: "a"}}, test.machines, test.desired); len(kept) != test.kept {
				t.Errorf("kept %v, want %d", kept, test.kept)
			}
		})
	}
}
