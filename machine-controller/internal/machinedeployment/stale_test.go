// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
