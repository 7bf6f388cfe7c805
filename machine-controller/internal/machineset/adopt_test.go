// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

// TestDeletedSetAdoptsNothing: the garbage collector would delete what it adopts.
func TestDeletedSetAdoptsNothing(t *testing.T) {
	t.Parallel()
	set := machineSet("")
	r, api := reconcilerWith(t, interceptor.Funcs{}, set)
	m := testenv.Machine(set.Namespace, "m")
	m.Labels = set.Spec.Template.Labels
	if err := api.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	stale := set.DeepCopy()
	if err := api.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if members, err := r.observe(t.Context(), &state{set: stale}); err != nil || len(members) != 0 {
		t.Errorf("it has %d Machines, error %v", len(members), err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || metav1.GetControllerOf(m) != nil {
		t.Errorf("the Machine is controlled by %v, error %v", metav1.GetControllerOf(m), err)
	}
	// One that exists adopts it.
	stale.ResourceVersion, stale.UID = "", ""
	if err := api.Create(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	if members, err := r.observe(t.Context(), &state{set: stale}); err != nil || len(members) != 1 {
		t.Errorf("it has %d Machines, error %v", len(members), err)
	}
}

func TestAdoptable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"it adopts a Machine that matches":       {func(*clusterv1.Machine) {}, true},
		"it adopts none of other labels":         {func(m *clusterv1.Machine) { m.Labels = map[string]string{"pool": "b"} }, false},
		"it adopts none of another Cluster":      {func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" }, false},
		"it adopts none that is being deleted":   {func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(epoch)) }, false},
		"it adopts one with more labels as well": {func(m *clusterv1.Machine) { m.Labels["own"] = "1" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, m := machineSet("ns"), testenv.Machine("ns", "m")
			m.Labels = map[string]string{"pool": "a"}
			test.change(m)
			matches, err := selector(set)
			if err != nil {
				t.Fatal(err)
			}
			if got := adoptable(set, m, matches); got != test.want {
				t.Errorf("adoptable is %t", got)
			}
		})
	}
}
