// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

// TestOrphaningLeavesMachines deletes a MachineSet as kubectl delete --cascade=orphan does.
func TestOrphaningLeavesMachines(t *testing.T) {
	t.Parallel()
	set := machineSet("")
	set.Finalizers = []string{clusterv1.MachineSetFinalizer}
	r, api := reconcilerWith(t, interceptor.Funcs{}, set)
	m := testenv.Machine(set.Namespace, "m")
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	if err := api.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has only the finalizer of the garbage collector
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		if _, err := r.finalize(t.Context(), set.DeepCopy(), &state{set: set}); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || m.DeletionTimestamp != nil {
		t.Errorf("Machine: %v, deleted at %v", err, m.DeletionTimestamp)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || !slices.Equal(set.Finalizers, []string{metav1.FinalizerOrphanDependents}) {
		t.Errorf("MachineSet: %v, finalizers %v", err, set.Finalizers)
	}
}
