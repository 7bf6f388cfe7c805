// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

// TestNodeOfAReusedNameIsNeitherDrainedNorDeleted deletes a Machine whose instance and Node are gone. The host of another
// Machine has got its address, and with that its name, and its Node has no providerID until the cloud controller manager
// writes it.
func TestNodeOfAReusedNameIsNeitherDrainedNorDeleted(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	l.must(shared.nodes.Delete(t.Context(), l.node))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.GetReason(m, clusterv1.MachineNodeReadyCondition)).To(gomega.Equal(clusterv1.MachineNodeDeletedReason))
	})
	other := testenv.Machine(l.machine.Namespace, "other")
	l.must(shared.client.Create(t.Context(), other))
	l.must(shared.client.Status().Patch(t.Context(), other, client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"addresses":[{"type":"InternalDNS","address":"`+l.node.Name+`"}]}}`))))
	l.Eventually(func(g gomega.Gomega) {
		cached := &clusterv1.Machine{}
		g.Expect(shared.reconciler.Client.Get(t.Context(), client.ObjectKeyFromObject(other), cached)).To(gomega.Succeed())
		g.Expect(cached.Status.Addresses).NotTo(gomega.BeEmpty())
	}).Should(gomega.Succeed())
	l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node.Name}}
	l.must(shared.nodes.Create(t.Context(), l.node))
	l.untilCached()
	for _, o := range []*unstructured.Unstructured{l.infra, l.config} {
		l.must(shared.client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	}
	l.deleteAndWait()
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if l.node.Spec.Unschedulable {
		t.Error("the Node of the other Machine is cordoned")
	}
}
