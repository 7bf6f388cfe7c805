// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	if deleting, all := countMachines(t, inner, set); deleting > 0 || all < 5 {
		t.Errorf("of 5 Machines %d are being deleted (%d left), and spec.replicas is 5", deleting, all)
	}
}

// TestMachinesThatAreGoneAreNoSurplus: a new leader reads Machines from a watch cache of an API server that is behind (5),
// and the MachineSet from one that is not (replicas 3). The leader before has deleted the other 2.
func TestMachinesThatAreGoneAreNoSurplus(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Spec.Deletion.Order = clusterv1.NewestMachineSetDeletionOrder
	objects := []client.Object{cluster, set}
	for i := range 3 {
		objects = append(objects, creation.NewMachine(set, fmt.Sprintf("m%d", i)))
	}
	var gone []clusterv1.Machine
	r, inner := reconcilerWith(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		machines, ok := list.(*clusterv1.MachineList)
		selector := (&client.ListOptions{}).ApplyOptions(options).FieldSelector
		err := c.List(ctx, list, options...)
		if ok && selector != nil && strings.Contains(selector.String(), string(set.UID)) {
			machines.Items = append(machines.Items, gone...)
		}
		return err
	}}, objects...)
	for i := range 2 {
		m := creation.NewMachine(set, fmt.Sprintf("gone%d", i))
		m.UID, m.CreationTimestamp = types.UID(m.Name), metav1.Unix(1, 0)
		gone = append(gone, *m)
	}
	reconcileSet := func() reconcile.Result {
		t.Helper()
		read := &clusterv1.MachineSet{}
		if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), read); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), read)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := reconcileSet(); result.RequeueAfter == 0 {
		t.Error("the cache is not compared again")
	}
	if deleting, all := countMachines(t, inner, set); deleting > 0 || all < 3 {
		t.Errorf("of 3 Machines %d are being deleted (%d left), and spec.replicas is 3", deleting, all)
	}
	gone = nil
	if reconcileSet(); !r.tracker.Verified(set.UID) {
		t.Error("the cache has what the API server has, and is not trusted")
	}
}

// countMachines counts the Machines in the namespace of the set that are being deleted, and all.
func countMachines(t *testing.T, c client.Client, set *clusterv1.MachineSet) (deleting, all int) {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := c.List(t.Context(), list, client.InNamespace(set.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			deleting++
		}
	}
	return deleting, len(list.Items)
}
