// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/patch"
)

// TestTextsOfAMachineDoNotStopTheStatus gives a Machine the longest version and condition that its status may have. What its
// MachineSet makes of them is longer than the status of a MachineSet may be.
func TestTextsOfAMachineDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := machineSet(w.namespace)
	set.Spec.Replicas = new(int32(1))
	set.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	w.create(set)
	w.Eventually(func() []string { return w.names(clusterv1.GroupVersion.String(), "Machine") }).Should(gomega.HaveLen(1))
	key := client.ObjectKey{Namespace: w.namespace, Name: w.names(clusterv1.GroupVersion.String(), "Machine")[0]}
	w.Eventually(func(g gomega.Gomega) {
		m := &clusterv1.Machine{}
		g.Expect(w.client.Get(t.Context(), key, m)).To(gomega.Succeed())
		before := m.DeepCopy()
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.36.3-" + strings.Repeat("x", 300)}
		conditions.Set(m, metav1.Condition{Type: "Gate", Status: metav1.ConditionFalse, Reason: "Closed", Message: strings.Repeat("x", 32768)})
		g.Expect(patch.Status(t.Context(), w.client, before, m)).To(gomega.Succeed())
	}).Should(gomega.Succeed())
	w.Eventually(func(g gomega.Gomega) {
		g.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		g.Expect(conditions.GetMessage(set, clusterv1.MachineSetMachinesReadyCondition)).To(gomega.ContainSubstring("Gate: xxx"))
		g.Expect(set.Status.Versions).To(gomega.HaveLen(1))
		g.Expect(set.Status.Versions[0].Version).To(gomega.HaveLen(256))
	}).Should(gomega.Succeed())
}
