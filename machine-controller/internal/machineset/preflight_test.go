// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPreflightBlocksCreation has a control plane that is being upgraded: no Machine is created meanwhile, a condition of the
// MachineSet has the reason, and the annotation skips the check.
func TestPreflightBlocksCreation(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	plane := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": "v1.36.3"}}}
	plane.SetAPIVersion("infrastructure.test.io/v1")
	plane.SetKind("ThingMachine")
	plane.SetNamespace(w.namespace)
	plane.SetName("plane")
	w.create(plane)
	// A Cluster of its own: one that got its control plane later could be seen without it.
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "planned"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingMachine", Name: "plane"}
	w.create(cluster)

	set := machineSet(w.namespace)
	set.Spec.ClusterName, set.Spec.Template.Spec.ClusterName = cluster.Name, cluster.Name
	set.Spec.Replicas, set.Spec.Template.Spec.Version = new(int32(1)), "v1.36.3"
	w.create(set)
	w.Eventually(func() string {
		_ = w.client.Get(t.Context(), client.ObjectKeyFromObject(set), set)
		return conditions.GetMessage(set, clusterv1.MachineSetScalingUpCondition)
	}).Should(gomega.ContainSubstring(string(clusterv1.MachineSetPreflightCheckControlPlaneIsStable)))
	if reason := conditions.GetReason(set, clusterv1.MachineSetScalingUpCondition); reason != clusterv1.MachineSetScalingUpReason {
		t.Errorf("the reason of what passes is %q", reason)
	}
	if made := faults.created(w.namespace, "Machine"); len(made) > 0 {
		t.Errorf("%d Machines were made", len(made))
	}
	was := set.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, clusterv1.MachineSetSkipPreflightChecksAnnotation, string(clusterv1.MachineSetPreflightCheckAll))
	w.Expect(w.client.Patch(t.Context(), set, client.MergeFrom(was))).To(gomega.Succeed())
	w.Eventually(func() int { return len(w.names(clusterv1.GroupVersion.String(), "Machine")) }).Should(gomega.Equal(1))
}

// TestLimitOfPendingMachinesPasses has a set of which the guard permits one Machine at a time: that ends by itself.
func TestLimitOfPendingMachinesPasses(t *testing.T) {
	t.Parallel()
	s := store(t, 3, nil)
	s.Guard.Default.PendingPerOwner = 1
	s.reconcileOnce(t)
	got := conditions.Get(s.set, clusterv1.MachineSetScalingUpCondition)
	if got.Status != metav1.ConditionTrue || got.Reason != clusterv1.MachineSetScalingUpReason || !strings.Contains(got.Message, "blocked because") {
		t.Errorf("ScalingUp is %+v", got)
	}
}
