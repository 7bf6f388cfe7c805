// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestStatusDebounceCountsFromTheFirstCall(t *testing.T) {
	t.Parallel()
	var h statusDebounce
	for _, step := range []struct {
		at   time.Duration
		want time.Duration
	}{{0, debouncePeriod}, {time.Second, debouncePeriod - time.Second}, {debouncePeriod, 0}} {
		if got := h.remaining("m", epoch.Add(step.at)); got != step.want {
			t.Errorf("after %s %s are left, want %s", step.at, got, step.want)
		}
	}
	if got := h.remaining("other", epoch.Add(time.Hour)); got != debouncePeriod {
		t.Errorf("another machine has %s left, want the whole period", got)
	}
	h.release("m")
	if got := h.remaining("m", epoch.Add(time.Hour)); got != debouncePeriod {
		t.Errorf("after a release %s are left, want the whole period", got)
	}
}

func TestUrgent(t *testing.T) {
	t.Parallel()
	set := func(kind string, status metav1.ConditionStatus) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: kind, Status: status, Reason: "r"})
		}
	}
	nothing := func(*clusterv1.Machine) {}
	draining := func(reason string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.DeletionTimestamp = new(metav1.NewTime(epoch))
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: metav1.NewTime(epoch)}
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: "True", Reason: reason})
		}
	}
	for name, test := range map[string]struct {
		before, after func(*clusterv1.Machine)
		want          bool
	}{
		"is not when nothing changed":                   {nothing, nothing, false},
		"is a Node reference":                           {nothing, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, true},
		"is a clock of the deletion that runs":          {nothing, draining(clusterv1.MachineDeletingDrainingNodeReason), true},
		"is not a clock of the deletion that has ended": {nothing, draining(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason), false},
		"is not becoming unready by deletion": {set(clusterv1.MachineReadyCondition, "True"), func(m *clusterv1.Machine) {
			m.DeletionTimestamp = new(metav1.NewTime(epoch))
			set(clusterv1.MachineReadyCondition, "False")(m)
		}, false},
		"is becoming ready":                          {set(clusterv1.MachineReadyCondition, "False"), set(clusterv1.MachineReadyCondition, "True"), true},
		"is becoming unready":                        {set(clusterv1.MachineReadyCondition, "True"), set(clusterv1.MachineReadyCondition, "Unknown"), true},
		"is being ready from the start":              {nothing, set(clusterv1.MachineReadyCondition, "True"), true},
		"is not being unready from the start":        {nothing, set(clusterv1.MachineReadyCondition, "False"), false},
		"is becoming available":                      {set(clusterv1.MachineAvailableCondition, "False"), set(clusterv1.MachineAvailableCondition, "True"), true},
		"is becoming outdated":                       {set(clusterv1.MachineUpToDateCondition, "True"), set(clusterv1.MachineUpToDateCondition, "False"), true},
		"is not being up to date from the start":     {nothing, set(clusterv1.MachineUpToDateCondition, "True"), false},
		"is being resumed":                           {set(clusterv1.PausedCondition, "True"), set(clusterv1.PausedCondition, "False"), true},
		"is not a condition that triggers no action": {set(clusterv1.MachineInfrastructureReadyCondition, "False"), set(clusterv1.MachineInfrastructureReadyCondition, "True"), false},
		"is not a phase":                             {nothing, func(m *clusterv1.Machine) { m.Status.Phase = "Provisioned" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.Machine{}, &clusterv1.Machine{}
			test.before(before)
			test.after(after)
			if got := urgent(before, after); got != test.want {
				t.Errorf("urgent is %t, want %t", got, test.want)
			}
		})
	}
}
