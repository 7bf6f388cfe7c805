// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// setOf is a MachineSet of the MachineDeployment "md" whose template has these.
func setOf(labels, annotations map[string]string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "set", UID: "set-uid",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "md", UID: "md-uid", Controller: new(true)}},
	}}
	set.Spec.ClusterName = "c"
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	set.Spec.Template.Labels, set.Spec.Template.Annotations = labels, annotations
	return set
}

// withFixedLabels are the labels of every Machine of setOf.
func withFixedLabels(more map[string]string) map[string]string {
	all := map[string]string{
		"pool": "a", clusterv1.ClusterNameLabel: "c", clusterv1.MachineSetNameLabel: "set", clusterv1.MachineDeploymentNameLabel: "md",
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}

func TestPropagateMetadata(t *testing.T) {
	t.Parallel()
	type pairs = map[string]string
	for name, test := range map[string]struct {
		machine              metav1.ObjectMeta
		labels, annotations  pairs
		wantLabels, wantNote pairs
	}{
		"puts the template's on a new Machine": {
			labels: pairs{"l": "1", "k": "2"}, annotations: pairs{"a": "1"},
			wantLabels: withFixedLabels(pairs{"l": "1", "k": "2"}), wantNote: pairs{"a": "1", labelsFromTemplate: "k,l", annotationsFromTemplate: "a"},
		},
		"lists no keys where there are none": {wantLabels: withFixedLabels(nil), wantNote: pairs{}},
		"changes values": {
			machine: metav1.ObjectMeta{Labels: withFixedLabels(pairs{"l": "1"}), Annotations: pairs{"a": "1", labelsFromTemplate: "l", annotationsFromTemplate: "a"}},
			labels:  pairs{"l": "2"}, annotations: pairs{"a": "2"},
			wantLabels: withFixedLabels(pairs{"l": "2"}), wantNote: pairs{"a": "2", labelsFromTemplate: "l", annotationsFromTemplate: "a"},
		},
		"takes back what left the template": {
			machine: metav1.ObjectMeta{
				Labels: withFixedLabels(pairs{"l": "1", "k": "2"}), Annotations: pairs{"a": "1", "b": "2", labelsFromTemplate: "k,l", annotationsFromTemplate: "a,b"},
			},
			labels: pairs{"l": "1"}, annotations: pairs{"b": "2"},
			wantLabels: withFixedLabels(pairs{"l": "1"}), wantNote: pairs{"b": "2", labelsFromTemplate: "l", annotationsFromTemplate: "b"},
		},
		"removes the list with the last key": {
			machine:    metav1.ObjectMeta{Labels: withFixedLabels(pairs{"l": "1"}), Annotations: pairs{"a": "1", labelsFromTemplate: "l", annotationsFromTemplate: "a"}},
			wantLabels: withFixedLabels(nil), wantNote: pairs{},
		},
		"does not touch what users put there": {
			machine: metav1.ObjectMeta{
				Labels: withFixedLabels(pairs{"mine": "1", "l": "1"}), Annotations: pairs{"note": "1", clusterv1.DeleteMachineAnnotation: "", labelsFromTemplate: "l"},
			},
			wantLabels: withFixedLabels(pairs{"mine": "1"}), wantNote: pairs{"note": "1", clusterv1.DeleteMachineAnnotation: ""},
		},
		"keeps what the selector needs though the template drops it": {
			machine:    metav1.ObjectMeta{Labels: withFixedLabels(nil), Annotations: pairs{labelsFromTemplate: "pool"}},
			wantLabels: withFixedLabels(nil), wantNote: pairs{},
		},
		"keeps the labels that select Machines": {
			labels:     pairs{clusterv1.ClusterNameLabel: "x", clusterv1.MachineSetNameLabel: "x", clusterv1.MachineDeploymentNameLabel: "x", "pool": "x"},
			wantLabels: withFixedLabels(nil),
			wantNote:   pairs{labelsFromTemplate: "cluster.x-k8s.io/cluster-name,cluster.x-k8s.io/deployment-name,cluster.x-k8s.io/set-name,pool"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &clusterv1.Machine{ObjectMeta: test.machine}
			set := setOf(test.labels, test.annotations)
			given := set.DeepCopy()
			for range 2 { // the second time finds nothing to do
				PropagateToMachine(machine, set)
				if diff := cmp.Diff(test.wantLabels, machine.Labels); diff != "" {
					t.Errorf("labels: %s", diff)
				}
				if diff := cmp.Diff(test.wantNote, machine.Annotations); diff != "" {
					t.Errorf("annotations: %s", diff)
				}
			}
			if diff := cmp.Diff(given, set); diff != "" {
				t.Errorf("the MachineSet was changed: %s", diff)
			}
		})
	}
}

func TestPropagateSpecInPlace(t *testing.T) {
	t.Parallel()
	set := setOf(nil, nil)
	set.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "c", Version: "v2", FailureDomain: "z",
		ReadinessGates:  []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}},
		MinReadySeconds: new(int32(7)),
		Deletion:        clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: new(int32(9))},
		Taints:          []clusterv1.MachineTaint{{Key: "k"}},
	}
	machine := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1", ProviderID: "id", FailureDomain: "y"}}
	PropagateToMachine(machine, set)
	want := clusterv1.MachineSpec{
		ClusterName: "c", Version: "v1", ProviderID: "id", FailureDomain: "y", // these take a new Machine
		ReadinessGates:  []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}},
		MinReadySeconds: new(int32(7)),
		Deletion:        clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: new(int32(9))},
		Taints:          []clusterv1.MachineTaint{{Key: "k"}},
	}
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Error(diff)
	}
	*machine.Spec.MinReadySeconds = 1
	machine.Spec.Taints[0].Key = "changed"
	if *set.Spec.Template.Spec.MinReadySeconds != 7 || set.Spec.Template.Spec.Taints[0].Key != "k" {
		t.Error("the Machine shares memory with the template")
	}
}

// TestMachineIsUpToDateOnceItWasWritten has templates with keys that every Machine has of its MachineSet, as a copied
// manifest can have: a Machine that never was up to date would be written again and again.
func TestMachineIsUpToDateOnceItWasWritten(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]*clusterv1.MachineSet{
		"with the label of another MachineSet": setOf(map[string]string{"pool": "a", clusterv1.MachineSetNameLabel: "other"}, nil),
		"with the label of another Cluster":    setOf(map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "other"}, nil),
		"with the records of a Machine":        setOf(map[string]string{"pool": "a"}, map[string]string{labelsFromTemplate: "x", annotationsFromTemplate: "y"}),
		"with nothing of that":                 setOf(map[string]string{"pool": "a"}, map[string]string{"a": "1"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			PropagateToMachine(m, set)
			if !MachineUpToDate(m, set, MachineLabels(set)) {
				t.Errorf("labels %v and annotations %v are not up to date", m.Labels, m.Annotations)
			}
		})
	}
}
