// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestARequestOfAnEarlierCheckIsNotUsed: nothing deletes the request with the check that it was made for. What came of it may
// be final, so that a later check that took it for its own would wait for ever.
func TestARequestOfAnEarlierCheckIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trigger    clusterv1.MachineHealthCheckRemediationTriggerIf
		conditions []string
		made       bool
	}{
		"where the Machine is handed over again": {clusterv1.MachineHealthCheckRemediationTriggerIf{}, []string{badNode, notMarked, "ExternallyRemediated=False WaitingForRemediation"}, true},
		"where it must not be remediated now": {
			clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyInRange: "[3-5]"}, []string{badNode, notMarked, alone}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, true)
			w.machine("m-0", "pool-a")
			w.template()
			check := w.external("MendRemediationTemplate")
			w.ready("m-0", corev1.ConditionFalse)
			w.expectConditions("m-0", badNode, notMarked, "ExternallyRemediated=False WaitingForRemediation")
			request := mend(w.namespace, "m-0")
			w.Eventually(func() error { return w.Get(t.Context(), client.ObjectKeyFromObject(request), request) }).Should(gomega.Succeed())
			earlier := request.GetUID()
			w.Expect(w.Delete(t.Context(), check)).To(gomega.Succeed())
			w.expectNoConditions("m-0")

			ref := check.Spec.Remediation.TemplateRef
			w.check("later", func(c *clusterv1.MachineHealthCheck) {
				c.Spec.Remediation.TemplateRef, c.Spec.Remediation.TriggerIf = ref, test.trigger
			})
			w.expectConditions("m-0", test.conditions...)
			w.Eventually(func(g gomega.Gomega) {
				err := w.Get(t.Context(), client.ObjectKeyFromObject(request), request)
				g.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
				g.Expect(err == nil).To(gomega.Equal(test.made))
				g.Expect(request.GetUID() != earlier || !test.made).To(gomega.BeTrue(), "the request of the earlier check")
			}, "15s").Should(gomega.Succeed())
		})
	}
}
