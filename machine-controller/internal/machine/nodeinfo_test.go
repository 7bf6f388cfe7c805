// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
