// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/testenv"
)

// TestNodeOfAnotherMachineDoesNotBecomeItsNode: the host of one Machine, which bears that one's name, registers itself with
// the providerID of another, whose own host has not joined yet.
func TestNodeOfAnotherMachineDoesNotBecomeItsNode(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	id := "thing://" + l.machine.Namespace
	other := testenv.Machine(l.machine.Namespace, "other-"+rand.String(8))
	l.must(shared.client.Create(t.Context(), other))
	l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other.Name}, Spec: corev1.NodeSpec{ProviderID: id}}
	l.must(shared.nodes.Create(t.Context(), l.node))
	t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), l.node) })
	l.report(l.config, map[string]any{"initialization": map[string]any{"dataSecretCreated": true}, "dataSecretName": "data"}, "status")
	l.report(l.infra, map[string]any{"providerID": id}, "spec")
	l.report(l.infra, map[string]any{"initialization": map[string]any{"provisioned": true}}, "status")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(m.Spec.ProviderID).To(gomega.Equal(id))
		g.Expect(conditions.GetMessage(m, clusterv1.MachineNodeReadyCondition)).To(gomega.And(
			gomega.ContainSubstring(`Node "`+other.Name+`"`), gomega.ContainSubstring("providerID")))
	})
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if _, labelled := l.node.Labels["node-role.kubernetes.io/worker"]; labelled || l.machine.Status.NodeRef.IsDefined() {
		t.Errorf("the Node has labels %v, nodeRef is %v", l.node.Labels, l.machine.Status.NodeRef)
	}
}
