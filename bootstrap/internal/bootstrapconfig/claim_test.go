// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestCopyMakesNoToken: this management cluster has a record of a claim that its original has renewed since.
func TestCopyMakesNoToken(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	key := machine.Namespace + "/" + machine.Spec.ClusterName
	sum := sha256.Sum256([]byte(key))
	memory := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "drover-system", Name: "drover-machine-controller-claims",
		Annotations: map[string]string{"drover.io/claim-history": `[{"holder":"original","sequence":5}]`},
	}}
	claimed := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("drover-%x", sum[:8]),
			Annotations: map[string]string{"drover.io/claim-sequence": "6"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("original")},
	}
	f.Expect(management.Client.Create(t.Context(), memory)).To(gomega.Succeed())
	t.Cleanup(func() { _ = management.Client.Delete(t.Context(), memory) })
	f.Expect(workloads.Client.Create(t.Context(), claimed)).To(gomega.Succeed())
	config := f.config(machine, nil)
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(f.get(config)).To(gomega.Succeed())
		condition := meta.FindStatusCondition(config.Status.Conditions, clusterv1.ReadyCondition)
		g.Expect(condition).NotTo(gomega.BeNil())
		g.Expect(condition.Reason).To(gomega.Equal(bootstrapv1.ClaimedElsewhereReason))
	}).Should(gomega.Succeed())
	time.Sleep(time.Second)
	f.Expect(f.tokens(machine)).To(gomega.BeEmpty())

	memory.Annotations["drover.io/claim-history"] = `[{"holder":"original","sequence":6}]` // it is the original
	f.Expect(management.Client.Update(t.Context(), memory)).To(gomega.Succeed())
	f.Expect(f.get(config)).To(gomega.Succeed())
	config.Annotations = map[string]string{"again": "1"}
	f.Expect(management.Client.Update(t.Context(), config)).To(gomega.Succeed())
	f.eventuallyReady(config)
}
