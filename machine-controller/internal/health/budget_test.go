// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	number, percent, word, negative := intstr.FromInt32(7), intstr.FromString("25%"), intstr.FromString("some"), intstr.FromInt32(-1)
	none := intstr.FromInt32(0)
	tests := map[string]struct {
		maxInFlight *intstr.IntOrString
		replicas    int
		want        int
		fails       bool
	}{
		"is one by default":           {replicas: 9, want: 1},
		"is one of none":              {replicas: 0, want: 1},
		"is a tenth by default":       {replicas: 50, want: 5},
		"is the number":               {maxInFlight: &number, replicas: 3, want: 7},
		"is the percentage, up":       {maxInFlight: &percent, replicas: 5, want: 2},
		"may be none":                 {maxInFlight: &none, replicas: 50, want: 0},
		"falls back on what is wrong": {maxInFlight: &word, replicas: 50, want: 5, fails: true},
		"falls back on the negative":  {maxInFlight: &negative, replicas: 50, want: 5, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Limit(test.maxInFlight, test.replicas)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("Limit = %d, %v; want %d, error %t", got, err, test.want, test.fails)
			}
		})
	}
}

func TestParseTrigger(t *testing.T) {
	t.Parallel()
	number, percent, word := intstr.FromInt32(3), intstr.FromString("40%"), intstr.FromString("few")
	tests := map[string]struct {
		spec        clusterv1.MachineHealthCheckRemediationTriggerIf
		least, most int
		fails       bool
	}{
		"is unbounded by default":         {most: -1},
		"takes a number":                  {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &number}, most: 3},
		"rounds a percentage down":        {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &percent}, most: 3},
		"prefers the range":               {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &number, UnhealthyInRange: "[2-5]"}, least: 2, most: 5},
		"refuses a word":                  {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &word}, fails: true},
		"refuses a range that is upside":  {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyInRange: "[5-2]"}, fails: true},
		"refuses a range without bracket": {spec: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyInRange: "1-2"}, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseTrigger(test.spec, 9)
			if got.Least != test.least || got.Most != test.most || (err != nil) != test.fails {
				t.Errorf("ParseTrigger = %+v, %v", got, err)
			}
		})
	}
}

// machine is a Machine of that age; each change makes it more than that.
func machine(name string, age time.Duration, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(age)}}
	for _, change := range changes {
		change(m)
	}
	return m
}

func checked(status metav1.ConditionStatus, since time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineHealthCheckSucceededCondition, Status: status, Reason: "Test", LastTransitionTime: ago(since),
		})
	}
}

func marked(m *clusterv1.Machine) {
	markedAs(clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)(m)
}

func markedAs(reason string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		checked(metav1.ConditionFalse, time.Minute)(m)
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason})
	}
}

func leavingNow(m *clusterv1.Machine) { m.DeletionTimestamp = new(ago(0)) }

func replacing(r Replacement) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { SetReplacement(m, r) }
}

func annotated(key string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Annotations[key] = "" }
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	tests := map[string]struct {
		machines       []*clusterv1.Machine
		records        []InFlightReplacement
		inFlight, busy int
	}{
		"does not count what is well":           {machines: []*clusterv1.Machine{machine("a", hour)}},
		"does not count other deletions":        {machines: []*clusterv1.Machine{machine("a", hour, leavingNow)}},
		"counts a marked Machine":               {machines: []*clusterv1.Machine{machine("a", hour, marked)}, inFlight: 1},
		"counts a marked Machine that leaves":   {machines: []*clusterv1.Machine{machine("a", hour, marked, leavingNow)}, inFlight: 1, busy: 1},
		"does not count what the owner refused": {machines: []*clusterv1.Machine{machine("a", hour, markedAs(clusterv1.MachineSetMachineCannotBeRemediatedReason))}},
		"does not count a replacement that the owner refused": {
			machines: []*clusterv1.Machine{machine("b", hour, markedAs(clusterv1.MachineSetMachineCannotBeRemediatedReason), replacing(Replacement{Machine: "a"}))},
		},
		"counts an unfilled replacement": {records: []InFlightReplacement{{Machine: "a"}}, inFlight: 1, busy: 1},
		"counts the Machine being deleted and its record as one": {
			machines: []*clusterv1.Machine{machine("a", hour, marked, leavingNow)}, records: []InFlightReplacement{{Machine: "a"}}, inFlight: 1, busy: 1,
		},
		"counts the record and the new Machine as one": {
			machines: []*clusterv1.Machine{machine("b", hour, replacing(Replacement{Machine: "a"}))}, records: []InFlightReplacement{{Machine: "a"}}, inFlight: 1, busy: 1,
		},
		"counts a marked replacement once": {
			machines: []*clusterv1.Machine{machine("b", hour, marked, replacing(Replacement{Machine: "a"}))}, inFlight: 1,
		},
		"does not count a replacement that has settled": {
			machines: []*clusterv1.Machine{machine("b", hour, replacing(Replacement{Machine: "a", Settled: true}))},
		},
		"does not count a replacement that was taken out of health checks": {
			machines: []*clusterv1.Machine{
				machine("b", hour, replacing(Replacement{Machine: "a"}), annotated(clusterv1.MachineSkipRemediationAnnotation)),
				machine("d", hour, replacing(Replacement{Machine: "c"}), annotated(clusterv1.PausedAnnotation)),
			},
		},
		"counts Machines that others remediate": {
			machines: []*clusterv1.Machine{machine("a", hour, func(m *clusterv1.Machine) {
				conditions.Set(m, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "Test"})
			})}, inFlight: 1, busy: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []int{InFlight(test.machines, test.records), Busy(test.machines, test.records)}
			if diff := cmp.Diff([]int{test.inFlight, test.busy}, got); diff != "" {
				t.Errorf("in flight and busy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBackOff lists how long the n-th replacement in a row that fails at once has to wait.
func TestBackOff(t *testing.T) {
	t.Parallel()
	var got []string
	for attempt := range 8 {
		m := machine("b", 0, replacing(Replacement{Machine: "a", Attempt: attempt}))
		wait := "at once"
		if at := NotBefore(m, noon); !at.IsZero() {
			wait = at.Sub(noon).String()
		}
		got = append(got, fmt.Sprintf("%d: %s, then %d", attempt, wait, NextAttempt(m, noon)))
	}
	want := []string{
		"0: at once, then 1", "1: 10m0s, then 2", "2: 20m0s, then 3", "3: 40m0s, then 4",
		"4: 1h20m0s, then 5", "5: 2h40m0s, then 6", "6: 4h0m0s, then 7", "7: 4h0m0s, then 8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestBackOffIsForFailuresInARow(t *testing.T) {
	t.Parallel()
	third := replacing(Replacement{Machine: "a", Attempt: 3})
	tests := map[string]struct {
		machine *clusterv1.Machine
		waits   bool
		next    int
	}{
		"not for the first of its place":           {machine: machine("a", time.Minute), next: 1},
		"for one that fails soon":                  {machine: machine("b", 30*time.Minute, third), waits: true, next: 4},
		"not for one that fails late":              {machine: machine("b", 2*time.Hour, third), next: 1},
		"for one that failed soon and waits since": {machine: machine("b", 2*time.Hour, third, checked(metav1.ConditionFalse, 100*time.Minute)), waits: true, next: 4},
		"not for one whose record was destroyed": {machine: machine("b", time.Minute, func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{ReplacesAnnotation: "{"}
		}), next: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if waits := !NotBefore(test.machine, noon).IsZero(); waits != test.waits {
				t.Errorf("waits %t, want %t", waits, test.waits)
			}
			if next := NextAttempt(test.machine, noon); next != test.next {
				t.Errorf("next attempt %d, want %d", next, test.next)
			}
		})
	}
}

func TestInFlightReplacementsRoundTrip(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{}
	want := []InFlightReplacement{{Machine: "a", Attempt: 2, Newest: metav1.NewTime(noon)}, {Machine: "b", Attempt: 1, Newest: metav1.NewTime(noon)}}
	SetInFlightReplacements(set, want)
	if diff := cmp.Diff(want, InFlightReplacements(set)); diff != "" {
		t.Errorf("replacements in flight (-want +got):\n%s", diff)
	}
	SetInFlightReplacements(set, nil)
	if len(set.Annotations) != 0 {
		t.Errorf("annotations stay: %v", set.Annotations)
	}
}
