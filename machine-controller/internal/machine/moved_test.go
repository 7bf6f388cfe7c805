// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload"
)

// TestAMachineWithoutStatusIsDrained: clusterctl move, and a restored backup without status, leave of a Machine what is in
// the specs. It is deleted before its provider reports again.
func TestAMachineWithoutStatusIsDrained(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	cluster := testCluster(l.machine.Namespace)
	pause := func(paused bool) {
		l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
		before := cluster.DeepCopy()
		cluster.Spec.Paused = &paused
		l.must(shared.client.Patch(t.Context(), cluster, client.MergeFrom(before)))
	}
	pause(true)
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.IsTrue(m, clusterv1.PausedCondition)).To(gomega.BeTrue())
	})
	l.machine.Status = clusterv1.MachineStatus{}
	l.must(shared.client.Status().Update(t.Context(), l.machine))
	l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra))
	delete(l.infra.Object, "status")
	l.must(shared.client.Status().Update(t.Context(), l.infra))
	l.must(shared.client.Delete(t.Context(), l.machine))
	pause(false)
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.GetReason(m, clusterv1.MachineDeletingCondition)).To(gomega.Equal(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason))
	})
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if !l.node.Spec.Unschedulable {
		t.Error("the instance is deleted, and the Node was not drained")
	}
	for _, o := range []client.Object{l.infra, l.config} {
		l.Eventually(func(g gomega.Gomega) {
			g.Expect(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
			g.Expect(o.GetDeletionTimestamp()).NotTo(gomega.BeNil())
		}).Should(gomega.Succeed())
		o.SetFinalizers(nil)
		l.must(shared.client.Update(t.Context(), o))
	}
	l.Eventually(func() bool {
		return apierrors.IsNotFound(shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.machine), l.machine))
	}).Should(gomega.BeTrue())
	if err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is left: %v", err)
	}
}

// TestDeletionOfAMachineWithoutStatusWaitsForTheFirstConnection: whether it has a Node is not known before.
func TestDeletionOfAMachineWithoutStatusWaitsForTheFirstConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		connection workload.State
		providerID string
		want       bool
	}{
		"which has not ended yet":         {workload.State{Reason: workload.ReasonConnecting}, "thing://1", true},
		"whose Nodes are not read yet":    {workload.State{}, "thing://1", true},
		"unless that has failed":          {workload.State{Reason: workload.ReasonUnreachable}, "thing://1", false},
		"unless it is there":              {workload.State{Connected: true}, "thing://1", false},
		"unless it never had an instance": {workload.State{Reason: workload.ReasonConnecting}, "", false},
	} {
		s := deletingState(func(s *state) {
			s.machine.Spec.ProviderID, s.machine.Status.NodeRef.Name = test.providerID, ""
			s.machine.Status.Initialization.InfrastructureProvisioned = new(test.providerID != "")
			s.node, s.connection = observed[corev1.Node]{}, test.connection
		})
		if got := s.forDeletion(false).Connecting; got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
