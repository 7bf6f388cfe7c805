// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

// TestASetThatIsGoneAdoptsNothing: what it adopts would be garbage.
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
