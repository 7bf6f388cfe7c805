// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/machineset/creation"
)

// TestOutdatedSetDeletesNoMachines: a new leader reads the MachineSet from a watch cache of an API server that is behind
// (replicas 1), and its Machines from one that is not (5).
func TestOutdatedSetDeletesNoMachines(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Spec.Replicas = new(int32(1))
	objects := []client.Object{cluster, set}
	for i := range 5 {
		objects = append(objects, creation.NewMachine(set, fmt.Sprintf("m%d", i)))
	}
	r, inner := reconcilerWith(t, interceptor.Funcs{}, objects...)
	old := &clusterv1.MachineSet{}
	setMetadata(&state{set: set, cluster: cluster}) // nothing is left to be patched
	if err := inner.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), old); err != nil {
		t.Fatal(err)
	}
	set = old.DeepCopy()
	set.Spec.Replicas = new(int32(5))
	if err := inner.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	list := &clusterv1.MachineList{}
	if err := inner.List(t.Context(), list, client.InNamespace(set.Namespace)); err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			deleted++
		}
	}
	if deleted > 0 || len(list.Items) < 5 {
		t.Errorf("of 5 Machines %d are being deleted (%d left), and spec.replicas is 5", deleted, len(list.Items))
	}
}
