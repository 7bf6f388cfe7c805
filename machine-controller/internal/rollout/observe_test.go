// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// owned is a Machine of ms with the named conditions true, or false after a "!".
func owned(ms *clusterv1.MachineSet, conditions ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.OwnerReferences = []metav1.OwnerReference{{UID: ms.UID, Controller: new(true)}}
	for _, kind := range conditions {
		status := metav1.ConditionTrue
		if rest, no := strings.CutPrefix(kind, "!"); no {
			kind, status = rest, metav1.ConditionFalse
		}
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status})
	}
	return m
}

func TestLastReplicas(t *testing.T) {
	t.Parallel()
	stamped := func(name string, replicas int32, revision, desired string) *clusterv1.MachineSet {
		ms := machineSet(name, 1, replicas)
		ms.Annotations = map[string]string{clusterv1.RevisionAnnotation: revision, clusterv1.DesiredReplicasAnnotation: desired, clusterv1.MaxReplicasAnnotation: "9"}
		return ms
	}
	none := stamped("b", 0, "2", "0")
	none.Annotations[clusterv1.MaxReplicasAnnotation] = "0"
	deleted := stamped("b", 10, "1", "10")
	deleted.DeletionTimestamp = new(metav1.NewTime(noon))
	for name, test := range map[string]struct {
		sets []*clusterv1.MachineSet
		want *int32
	}{
		"it is nothing though an older set is of another size": {[]*clusterv1.MachineSet{stamped("a", 0, "1", "3"), none}, new(int32(0))},
		"it is of a set with replicas though an empty one is newer": {
			[]*clusterv1.MachineSet{stamped("a", 0, "3", "3"), stamped("b", 10, "2", "10"), stamped("c", 1, "1", "9")}, new(int32(10)),
		},
		"it is not of a set that is deleted":                     {[]*clusterv1.MachineSet{stamped("a", 0, "2", "5"), deleted}, new(int32(5))},
		"it is unknown without a set":                            {},
		"it is what the newest set was written for":              {[]*clusterv1.MachineSet{stamped("a", 4, "2", "7"), stamped("b", 2, "10", "5"), stamped("c", 3, "3", "6")}, new(int32(5))},
		"it is nothing where the set was written for":            {[]*clusterv1.MachineSet{stamped("a", 4, "2", "0")}, new(int32(0))},
		"it is the sum where no set was written by this manager": {[]*clusterv1.MachineSet{machineSet("a", 2, 4), machineSet("b", 1, 1)}, new(int32(5))},
		"it is of a set whose annotations can be read":           {[]*clusterv1.MachineSet{stamped("a", 4, "2", "many"), stamped("b", 2, "1", "5")}, new(int32(5))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, LastDesiredReplicas(test.sets)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Spec.Paused = new(true)
	a, b := machineSet("a", 2, 4, version("v1.34.0")), machineSet("b", 1, 1)
	a.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7", clusterv1.DisableMachineCreateAnnotation: "true"}
	for key, value := range (SizeAnnotations{Desired: 4, Max: 6}).Annotations() {
		a.Annotations[key] = value
	}
	a.Status.Replicas = new(int32(4))
	b.Generation, b.Status.ObservedGeneration = 2, 1
	b.DeletionTimestamp = new(metav1.NewTime(noon))
	b.Annotations = map[string]string{clusterv1.DesiredReplicasAnnotation: "many", clusterv1.MaxReplicasAnnotation: "3"}

	going, marked := owned(a, "Available"), owned(a, "Available")
	going.DeletionTimestamp = new(metav1.NewTime(noon))
	marked.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	stray := &clusterv1.Machine{}

	got, err := Observe(Observation{
		Deployment: md, Sets: []*clusterv1.MachineSet{a, b}, Now: noon, HistoryLimit: 2, Unseen: []string{"c"}, Blocked: "unreachable",
		Machines: []*clusterv1.Machine{going, marked, owned(a, "Available", "!NodeHealthy"), owned(a, "!Available", "!HealthCheckSucceeded"), owned(b), stray},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := State{
		Replicas: 3, Limits: Limits{Surge: 1}, Paused: true, HistoryLimit: 2, Unseen: []string{"c"}, Blocked: "unreachable",
		Sets: []Set{
			{Name: "a", Created: a.CreationTimestamp.Time, Revision: 7, Replicas: 4, Machines: 4, Reported: 4, Deleting: 1, Available: 2, Unhealthy: 2, DeleteAnnotated: 1, Recorded: SizeAnnotations{4, 6}, CreateDisabled: true},
			{Name: "b", Created: b.CreationTimestamp.Time, Replicas: 1, Machines: 1, Terminating: true, Unobserved: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	b.DeletionTimestamp = nil
	got, err = Observe(Observation{Deployment: md, Sets: []*clusterv1.MachineSet{a, b}, Now: noon})
	if err != nil || got.Sets[0].Current || !got.Sets[1].Current {
		t.Errorf("b is not current: %+v, %v", got.Sets, err)
	}
}

func TestObserveRejectsInvalidMachineDeployment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		field  string
	}{
		"it requires replicas": {func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = nil }, "spec.replicas"},
		"it requires limits": {func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = limitValues()[0]
			md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("x"))
		}, "spec.rollout.strategy.rollingUpdate.maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			test.change(md)
			if _, err := Observe(Observation{Deployment: md, Now: noon}); err == nil || !strings.Contains(fmt.Sprint(err), test.field) {
				t.Errorf("error is %v, want one about %q", err, test.field)
			}
		})
	}
}
