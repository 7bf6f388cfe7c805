// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNodeInfoIsBounded(t *testing.T) {
	t.Parallel()
	reported := &corev1.NodeSystemInfo{}
	fields := reflect.ValueOf(reported).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).Kind() == reflect.String {
			fields.Field(i).SetString(strings.Repeat("ä", 200))
		}
	}
	bounded := reflect.ValueOf(boundedNodeInfo(reported)).Elem()
	for i := range bounded.NumField() {
		if bounded.Field(i).Kind() != reflect.String {
			continue
		}
		if diff := cmp.Diff(strings.Repeat("ä", 128), bounded.Field(i).String()); diff != "" {
			t.Errorf("%s: %s", bounded.Type().Field(i).Name, diff)
		}
	}
}

// TestTextsOfAKubeletDoNotStopTheStatus writes into a Node what its API allows and the status of a Machine does not.
func TestTextsOfAKubeletDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	before := l.node.DeepCopy()
	for i := range l.node.Status.Conditions {
		if each := &l.node.Status.Conditions[i]; each.Type == corev1.NodeReady {
			each.Status, each.Message = corev1.ConditionFalse, strings.Repeat("x", 40<<10)
		}
	}
	l.node.Status.NodeInfo.KubeletVersion = "v1.36.3-" + strings.Repeat("x", 400)
	l.must(shared.nodes.Status().Patch(t.Context(), l.node, client.StrategicMergeFrom(before)))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.IsFalse(m, clusterv1.MachineNodeReadyCondition)).To(gomega.BeTrue())
		g.Expect(conditions.IsFalse(m, clusterv1.MachineAvailableCondition)).To(gomega.BeTrue())
		g.Expect(m.Status.NodeInfo.KubeletVersion).To(gomega.HaveLen(maxNodeInfo))
	})
}

// TestConditionsOfAKubeletDoNotStopTheStatus has a kubelet write conditions that its API accepts and that of a Machine does
// not. Without its status a Machine has no reference to its Node, and its deletion waits for one.
func TestConditionsOfAKubeletDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]corev1.NodeCondition{
		"with a status that does not exist": {Status: "Maybe"},
		"without a status":                  {},
		"with a time in the far future":     {Status: "False", LastTransitionTime: metav1.Date(9500, 1, 1, 0, 0, 0, 0, time.UTC)},
		"with a time in the far past":       {Status: "False", LastTransitionTime: metav1.Date(500, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestMachine(t, "m")
			l.provision()
			l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
			before := l.node.DeepCopy()
			ready.Type = corev1.NodeReady
			l.node.Status.Conditions = append(l.node.Status.Conditions[:0:0], ready)
			l.must(shared.nodes.Status().Patch(t.Context(), l.node, client.MergeFrom(before)))
			l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
				g.Expect(conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition)).To(gomega.BeFalse())
			})
		})
	}
}

// TestAKubeletDoesNotStopTheDeletion has a host that registers its Node with a condition that a Machine cannot have.
func TestAKubeletDoesNotStopTheDeletion(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	name := l.machine.Namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "thing://" + name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "Maybe"}}
	l.must(shared.nodes.Create(t.Context(), node))
	t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), node) })
	l.report(l.infra, map[string]any{"providerID": "thing://" + name}, "spec")
	l.report(l.infra, map[string]any{"initialization": map[string]any{"provisioned": true}}, "status")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) { g.Expect(m.Spec.ProviderID).NotTo(gomega.BeEmpty()) })
	l.must(shared.client.Delete(t.Context(), l.machine))
	l.Eventually(func(g gomega.Gomega) {
		g.Expect(shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra)).To(gomega.Succeed())
		g.Expect(l.infra.GetDeletionTimestamp()).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
}
