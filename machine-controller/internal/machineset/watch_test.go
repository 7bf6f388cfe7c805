// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/predicates"
)

// withWatchLabel labels an object for a manager.
func withWatchLabel[T client.Object](object T, watch string) T {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.WatchLabel] = watch
	object.SetLabels(labels)
	return object
}

// resourceVersions returns the resource versions of the Machines of a namespace.
func resourceVersions(t *testing.T, c client.Client, namespace string) map[string]string {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range list.Items {
		all[m.Name] = m.ResourceVersion
	}
	return all
}

// TestForeignSetIsNotReconciled has a set with a surplus Machine, labelled for another manager and without a label.
func TestForeignSetIsNotReconciled(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"labelled for another manager": "other", "without a label": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := clusterAndSet()
			set.Spec.Replicas = new(int32(1))
			if label != "" {
				withWatchLabel(set, label)
			}
			one, two := creation.NewMachine(set, "one"), creation.NewMachine(set, "two")
			r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, one, two)
			before := resourceVersions(t, inner, set.Namespace)
			for range 3 {
				if _, err := predicates.FilterReconciler("own", r).Reconcile(t.Context(), set.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, resourceVersions(t, inner, set.Namespace)); diff != "" {
				t.Errorf("Machines changed: %s", diff)
			}
		})
	}
}

// TestSetWithForeignMachineIsBlocked has more, as many and fewer Machines than wanted, one of them labelled for
// another manager, and a set that is deleted.
func TestSetWithForeignMachineIsBlocked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas int32
		marked   bool
	}{
		"it deletes none of too many":             {1, false},
		"it leaves as many as it should be alone": {2, false},
		"it makes none of those that are missing": {5, false},
		"it replaces none that is unhealthy":      {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := clusterAndSet()
			withWatchLabel(set, "own")
			set.Finalizers, set.Spec.Replicas = []string{clusterv1.MachineSetFinalizer}, &test.replicas
			ours, other := creation.NewMachine(set, "a"), withWatchLabel(creation.NewMachine(set, "b"), "other")
			if test.marked {
				healthCheckFailed(ours)
				healthCheckFailed(other)
			}
			r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, ours, other)
			r.watch = "own"
			r.setUp()
			before := resourceVersions(t, inner, set.Namespace)
			for range 3 {
				if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Reconcile(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, resourceVersions(t, inner, set.Namespace)); diff != "" {
				t.Errorf("Machines changed: %s", diff)
			}
			if message := conditions.GetMessage(set, clusterv1.MachineSetScalingUpCondition); !strings.Contains(message, `Machine "b" has the label cluster.x-k8s.io/watch-filter: "other"`) {
				t.Errorf("condition ScalingUp is %q", message)
			}
			if down := conditions.Get(set, clusterv1.MachineSetScalingDownCondition); (down.Reason == droverpolicyv1.BlockedReason) != (test.replicas < 2) {
				t.Errorf("condition ScalingDown is %+v", down)
			}
		})
	}
}

func TestDeletedSetKeepsForeignMachine(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	withWatchLabel(set, "own")
	set.Finalizers = []string{clusterv1.MachineSetFinalizer}
	ours, other := creation.NewMachine(set, "a"), withWatchLabel(creation.NewMachine(set, "b"), "other")
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, ours, other)
	r.watch = "own"
	r.setUp()
	if err := inner.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for m, going := range map[*clusterv1.Machine]bool{ours: true, other: false} {
		if err := inner.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || m.DeletionTimestamp.IsZero() == going {
			t.Errorf("Machine %q: deletion at %v (%v)", m.Name, m.DeletionTimestamp, err)
		}
	}
	if message := conditions.GetMessage(set, clusterv1.MachineSetDeletingCondition); !strings.Contains(message, `Machine "b" has the label`) {
		t.Errorf("condition Deleting is %q", message)
	}
	if reason := conditions.GetReason(set, clusterv1.MachineSetScalingDownCondition); reason != droverpolicyv1.BlockedReason {
		t.Errorf("the reason of ScalingDown is %q", reason)
	}
}

func TestAdoptionRequiresWatchLabel(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	withWatchLabel(set, "own")
	stray := func(name, label string) *clusterv1.Machine {
		m := testenv.Machine("ns", name)
		m.Labels = map[string]string{"pool": "a"}
		if label != "" {
			withWatchLabel(m, label)
		}
		return m
	}
	strays := []*clusterv1.Machine{stray("own", "own"), stray("other", "other"), stray("unlabelled", "")}
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, strays[0], strays[1], strays[2])
	r.watch = "own"
	r.setUp()
	if _, err := r.observe(t.Context(), &state{set: set, cluster: cluster}); err != nil {
		t.Fatal(err)
	}
	for i, adopted := range []bool{true, false, false} {
		if err := inner.Get(t.Context(), client.ObjectKeyFromObject(strays[i]), strays[i]); err != nil || metav1.IsControlledBy(strays[i], set) != adopted {
			t.Errorf("Machine %q has the owners %v (%v)", strays[i].Name, strays[i].OwnerReferences, err)
		}
	}
}

// TestForeignMachineIsNotReleased has a Machine that does not match the selector any more.
func TestForeignMachineIsNotReleased(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	withWatchLabel(set, "own")
	other := withWatchLabel(creation.NewMachine(set, "m"), "other")
	other.Labels["pool"] = "b"
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, other)
	r.watch = "own"
	r.setUp()
	before := resourceVersions(t, inner, set.Namespace)
	if _, err := r.observe(t.Context(), &state{set: set, cluster: cluster}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, resourceVersions(t, inner, set.Namespace)); diff != "" {
		t.Errorf("Machines changed: %s", diff)
	}
}

func TestMachineInheritsWatchLabel(t *testing.T) {
	t.Parallel()
	_, set := clusterAndSet()
	set.Spec.Template.Labels[clusterv1.WatchLabel] = "template"
	if got := creation.NewMachine(set, "m").Labels[clusterv1.WatchLabel]; got != "template" {
		t.Errorf("from a set without the label it has %q", got)
	}
	withWatchLabel(set, "own")
	m := creation.NewMachine(set, "m")
	if got := m.Labels[clusterv1.WatchLabel]; got != "own" {
		t.Errorf("it has %q", got)
	}
	delete(m.Labels, clusterv1.WatchLabel)
	if inplace.MachineUpToDate(m, set, inplace.MachineLabels(set)) {
		t.Error("that it lost the label goes unnoticed")
	}
}

// TestHandlersCompileNoSelector has a MachineSet that does not select a Machine: until it was reconciled its selector is not
// compiled, and each uncontrolled Machine of its Cluster triggers that.
func TestHandlersCompileNoSelector(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	r, _ := reconcilerWith(t, interceptor.Funcs{}, cluster, set)
	m := creation.NewMachine(set, "m")
	m.Labels = map[string]string{"pool": "other"}
	for _, reconciled := range []bool{false, true} {
		if reconciled {
			if _, err := r.observe(t.Context(), &state{set: set, cluster: cluster}); err != nil {
				t.Fatal(err)
			}
		}
		if triggers := len(r.setsForUncontrolledMachine(t.Context(), m)) == 1; triggers == reconciled {
			t.Errorf("reconciled: %t, the Machine triggers a reconcile: %t", reconciled, triggers)
		}
	}
}
