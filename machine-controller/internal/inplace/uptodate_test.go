// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestMachineUpToDate compares the quick check with its definition: a Machine carries the
// template exactly if propagating it would change nothing.
func TestMachineUpToDate(t *testing.T) {
	t.Parallel()
	set := func() *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
		s.Spec.ClusterName = "edge"
		s.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
		s.Spec.Template.Labels = map[string]string{"tier": "web"}
		s.Spec.Template.Annotations = map[string]string{"note": "x"}
		s.Spec.Template.Spec.MinReadySeconds = new(int32(5))
		return s
	}
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineSet, *clusterv1.Machine)
		want   bool
	}{
		"is true after propagating":                   {func(*clusterv1.MachineSet, *clusterv1.Machine) {}, true},
		"is true beside a user's own label":           {func(_ *clusterv1.MachineSet, m *clusterv1.Machine) { m.Labels["mine"] = "y" }, true},
		"is false for a label that changed":           {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) { s.Spec.Template.Labels["tier"] = "db" }, false},
		"is false for a label that left the template": {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) { delete(s.Spec.Template.Labels, "tier") }, false},
		"is false for an annotation that was added":   {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) { s.Spec.Template.Annotations["new"] = "" }, false},
		"is false for a removed label":                {func(_ *clusterv1.MachineSet, m *clusterv1.Machine) { delete(m.Labels, "pool") }, false},
		"is false for another minReadySeconds":        {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) { s.Spec.Template.Spec.MinReadySeconds = nil }, false},
		"is false for another drain timeout": {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) {
			s.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(9))
		}, false},
		"is false for a removed taint": {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) {
			s.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{{Key: "k"}}
		}, false},
		"is false for a readiness gate that was added": {func(s *clusterv1.MachineSet, _ *clusterv1.Machine) {
			s.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Ok"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := set(), &clusterv1.Machine{}
			PropagateToMachine(m, s)
			test.change(s, m)
			if got := MachineUpToDate(m, s, MachineLabels(s)); got != test.want {
				t.Errorf("carries is %t, want %t", got, test.want)
			}
			PropagateToMachine(m, s)
			if !MachineUpToDate(m, s, MachineLabels(s)) {
				t.Error("it does not carry what was just propagated")
			}
		})
	}
}

func TestMachineUpToDateMatchesMachine(t *testing.T) {
	t.Parallel()
	set := setOf(map[string]string{"l": "1"}, map[string]string{"a": "1"})
	set.Spec.Template.Spec.MinReadySeconds = new(int32(1))
	for name, change := range map[string]func(*clusterv1.Machine){
		"nothing":              func(*clusterv1.Machine) {},
		"a label of its own":   func(m *clusterv1.Machine) { m.Labels["mine"] = "1" },
		"a label lost":         func(m *clusterv1.Machine) { delete(m.Labels, "l") },
		"a label changed":      func(m *clusterv1.Machine) { m.Labels[clusterv1.ClusterNameLabel] = "x" },
		"an annotation lost":   func(m *clusterv1.Machine) { delete(m.Annotations, "a") },
		"no record":            func(m *clusterv1.Machine) { delete(m.Annotations, labelsFromTemplate) },
		"record of a key more": func(m *clusterv1.Machine) { m.Annotations[labelsFromTemplate] = "gone,l" },
		"another spec":         func(m *clusterv1.Machine) { m.Spec.MinReadySeconds = nil },
		"a taint more":         func(m *clusterv1.Machine) { m.Spec.Taints = []clusterv1.MachineTaint{{Key: "k"}} },
		"a deletion timeout":   func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(1)) },
		"no annotations":       func(m *clusterv1.Machine) { m.Annotations = nil },
		"deletion":             func(m *clusterv1.Machine) { m.DeletionTimestamp, m.Annotations = new(metav1.Now()), nil },
		"deletion and a label lost": func(m *clusterv1.Machine) {
			m.DeletionTimestamp = new(metav1.Now())
			delete(m.Labels, "l")
		},
		"deletion and another spec": func(m *clusterv1.Machine) { m.DeletionTimestamp, m.Spec.MinReadySeconds = new(metav1.Now()), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &clusterv1.Machine{}
			PropagateToMachine(machine, set)
			change(machine)
			wanted := machine.DeepCopy()
			PropagateToMachine(wanted, set)
			if got, want := MachineUpToDate(machine, set, MachineLabels(set)), cmp.Equal(machine, wanted); got != want {
				t.Errorf("carries is %t, but propagate changes: %s", got, cmp.Diff(machine, wanted))
			}
		})
	}
}

// TestRecordsOfTheProviderAreNotPatched: an identity that is replaced or removed makes a machine lose its instance.
func TestRecordsOfTheProviderAreNotPatched(t *testing.T) {
	t.Parallel()
	before := "infrastructure.drover.io/account,infrastructure.drover.io/identity,a"
	got := annotationsPatch(before, map[string]string{"infrastructure.drover.io/identity": "x", "b": "1"})
	if diff := cmp.Diff(map[string]any{"a": nil, "b": "1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
