// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/testenv"
)

// machineOfSet is a Machine of setOf for which these conditions are true.
func machineOfSet(name string, are ...string) *clusterv1.Machine {
	m := machineOfVersion("v1.36.3", are...)
	m.Namespace, m.Name, m.Labels, m.Spec = "ns", name, map[string]string{"pool": "a"}, testenv.MachineSpec()
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: "set-uid", Controller: new(true)}}
	return m
}

// TestPausedSetWritesDelayedStatus pauses a set whose last status was written a moment before a
// Machine became available: the counters must not stay behind for as long as it is paused.
func TestPausedSetWritesDelayedStatus(t *testing.T) {
	t.Parallel()
	set := setOf(map[string]string{"pool": "a"}, nil)
	set.Spec.Template.Spec, set.Annotations = testenv.TemplateSpec(), map[string]string{clusterv1.PausedAnnotation: ""}
	set.Status.ObservedGeneration, set.Status.AvailableReplicas = 1, new(int32(0))
	r, store := reconcilerWith(t, interceptor.Funcs{}, set,
		testenv.Cluster("ns"), machineOfSet("a", clusterv1.MachineAvailableCondition), machineOfSet("b"))
	r.statusWriter.Writes.Mark(set.UID)
	set.Spec.Replicas = new(int32(2)) // generation 2
	if err := store.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	if !conditions.IsTrue(set, clusterv1.PausedCondition) {
		t.Error("it is not shown as paused")
	}
	got := set.Status
	got.Conditions = nil
	want := clusterv1.MachineSetStatus{
		ObservedGeneration: 1, // the spec is not acted upon
		Replicas:           new(int32(2)), ReadyReplicas: new(int32(0)), AvailableReplicas: new(int32(1)), UpToDateReplicas: new(int32(0)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestDelayedStatusIsNotAggregated leaves out what costs most until it is to be written.
func TestDelayedStatusIsNotAggregated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		early, pressing bool
		want            bool
	}{
		"it waits for its turn":                  {early: true},
		"it does not when it is pressing":        {early: true, pressing: true, want: true},
		"it is summed up when its turn has come": {want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(map[string]string{"pool": "a"}, nil)
			set.Spec.Template.Spec, set.Spec.Replicas = testenv.TemplateSpec(), new(int32(3))
			set.Status.ObservedGeneration, set.Status.Replicas = 1, new(int32(2))
			conditions.Set(set, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason})
			conditions.Set(set, metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason})
			if test.pressing {
				set.Status.Replicas = new(int32(1))
			}
			r, store := reconcilerWith(t, interceptor.Funcs{}, set)
			if test.early {
				r.statusWriter.Writes.Mark(set.UID)
			}
			s := &state{set: set, cluster: &clusterv1.Cluster{}, machines: []*clusterv1.Machine{machineOfSet("a"), machineOfSet("b")}}
			result, err := r.writeStatus(t.Context(), set.DeepCopy(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Has(set, clusterv1.MachineSetMachinesReadyCondition); got != test.want {
				t.Errorf("it is summed up: %t, want %t", got, test.want)
			}
			if again := result.RequeueAfter > 0; again == test.want || result.RequeueAfter > statuswriter.Period {
				t.Errorf("it comes back after %s", result.RequeueAfter)
			}
		})
	}
}

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
