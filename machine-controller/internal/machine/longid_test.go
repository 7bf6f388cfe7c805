// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTextsOfAProviderDoNotStopTheDeletion has a provider report what its API allows and a Machine cannot have. Whatever is
// written to the Machine with it would be refused, and its deletion waits until that is written.
func TestTextsOfAProviderDoNotStopTheDeletion(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(l *testMachine){
		"a long providerID": func(l *testMachine) {
			l.report(l.infra, map[string]any{"providerID": "thing://" + strings.Repeat("x", 600)}, "spec")
			l.report(l.infra, map[string]any{"initialization": map[string]any{"provisioned": true}}, "status")
		},
		"a long failure domain": func(l *testMachine) {
			l.report(l.infra, map[string]any{"providerID": "thing://" + l.machine.Namespace}, "spec")
			l.report(l.infra, map[string]any{"initialization": map[string]any{"provisioned": true}, "failureDomain": strings.Repeat("z", 300)}, "status")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestMachine(t, "m")
			l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
				g.Expect(m.Finalizers).NotTo(gomega.BeEmpty())
			})
			report(l)
			l.must(shared.client.Delete(t.Context(), l.machine))
			l.Eventually(func(g gomega.Gomega) {
				g.Expect(shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra)).To(gomega.Succeed())
				g.Expect(l.infra.GetDeletionTimestamp()).NotTo(gomega.BeNil())
			}).Should(gomega.Succeed())
		})
	}
}
