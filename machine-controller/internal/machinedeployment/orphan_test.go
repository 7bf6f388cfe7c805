// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

// TestOrphanDeletionLeavesMachineSets deletes a MachineDeployment as kubectl delete --cascade=orphan does.
func TestOrphanDeletionLeavesMachineSets(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	set := setOf(md, "set", "v1.36.1")
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
	r.setUp()
	if err := r.Client.Delete(t.Context(), md, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time only the garbage collector's finalizer is left
		r.get(t, md)
		if _, err := r.Reconcile(t.Context(), md); err != nil {
			t.Fatal(err)
		}
	}
	if r.get(t, set); set.DeletionTimestamp != nil {
		t.Errorf("the MachineSet was deleted at %v", set.DeletionTimestamp)
	}
	if r.get(t, md); !slices.Equal(md.Finalizers, []string{metav1.FinalizerOrphanDependents}) {
		t.Errorf("finalizers %v", md.Finalizers)
	}
}

// TestDeletionKeepsReleasedSet deletes a deployment whose MachineSet has lost its owner since it was read, as
// it does when the garbage collector was faster than the cache.
func TestDeletionKeepsReleasedSet(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	set := setOf(md, "set", "v1.36.1")
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
	r.setUp()
	seen := set.DeepCopy()
	set.OwnerReferences = nil
	if err := r.Client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	s := &state{deployment: md, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{seen}}
	if _, err := r.finalize(t.Context(), md.DeepCopy(), s); err != nil {
		t.Fatal(err)
	}
	if r.get(t, set); set.DeletionTimestamp != nil {
		t.Errorf("the MachineSet was deleted at %v", set.DeletionTimestamp)
	}
}
