// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/testenv"
)

// TestOutdatedDeploymentLowersNoReplicas: a new leader reads the MachineDeployment from a watch cache that is behind
// (replicas 3), and its MachineSet, which has followed the increase to 10 already, from one that is not.
func TestOutdatedDeploymentLowersNoReplicas(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Replicas = new(int32(3))
	set := setOf(md, "set", md.Spec.Template.Spec.Version)
	set.Spec.Replicas = new(int32(10))
	for key, value := range (rollout.SizeAnnotations{Desired: 10, Max: 11}).Annotations() {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value)
	}
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
	r.setUp()
	r.get(t, md)
	stale := md.DeepCopy()
	md.Spec.Replicas = new(int32(10))
	if err := r.Client.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, set)
	s := &state{deployment: stale, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{set}}
	result, err := r.rollOut(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r.get(t, set)
	if *set.Spec.Replicas != 10 || result.RequeueAfter == 0 {
		t.Errorf("spec.replicas of the MachineSet is %d, result %v; want 10, and another attempt", *set.Spec.Replicas, result)
	}
}

// TestOutdatedMachineSetDelaysTheRollout changes how Machines are deleted together with the size, while the cache is a write behind for
// one of two MachineSets: the other gets fewer replicas only once it has the order.
func TestOutdatedMachineSetDelaysTheRollout(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Replicas = new(int32(6))
	a, b := setOf(md, "a", md.Spec.Template.Spec.Version), setOf(md, "b", "v1.36.1")
	for _, set := range []*clusterv1.MachineSet{a, b} {
		set.Spec.Replicas = new(int32(3))
		inplace.PropagateToMachineSet(set, md)
	}
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, a, b)
	r.setUp()
	r.follow(t, a)
	r.follow(t, b)
	stale := a.DeepCopy()
	a.Status.AvailableReplicas = new(int32(2))
	if err := r.Client.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	md.Spec.Replicas, md.Spec.Deletion.Order = new(int32(2)), clusterv1.NewestMachineSetDeletionOrder
	if err := r.Client.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	for _, pass := range []struct {
		cached  *clusterv1.MachineSet
		lowered bool
	}{{stale, false}, {a, true}} {
		r.get(t, b)
		s := &state{deployment: md, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{pass.cached.DeepCopy(), b.DeepCopy()}}
		result, err := r.rollOut(t.Context(), s)
		r.get(t, b)
		if lowered := *b.Spec.Replicas < 3; err != nil || lowered != pass.lowered || !lowered && result.RequeueAfter != coalesce.Window {
			t.Errorf("lowered: %t, want %t; result %v, error %v", lowered, pass.lowered, result, err)
		}
		if *b.Spec.Replicas < 3 && b.Spec.Deletion.Order != md.Spec.Deletion.Order {
			t.Errorf("%d replicas with the order %s", *b.Spec.Replicas, b.Spec.Deletion.Order)
		}
	}
}
