// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/claim"
)

// TestCopyApprovesNothing: another management cluster holds the claim of the workload cluster.
func TestCopyApprovesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sequence string
		events   int
	}{
		"a claim of the original": {"6", 0},
		"its own claim":           {"5", 1}, // the request is of no Machine
	} {
		sum := sha256.Sum256([]byte("ns/c"))
		remote := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("drover-%x", sum[:8]), Annotations: map[string]string{"drover.io/claim-sequence": test.sequence}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("original")},
		})
		memory := ctrlfake.NewClientBuilder().WithObjects(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "drover-system", Name: "drover-machine-controller-claims", Annotations: map[string]string{"drover.io/claim-history": `[{"holder":"original","sequence":5}]`},
		}}).Build()
		recorder := events.NewFakeRecorder(10)
		a := &approver{
			client: management.Client, events: newRecorder(recorder), log: logr.Discard(),
			cluster:    &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}},
			connection: &workload.Connection{Coordination: remote.CoordinationV1()},
			claims:     &claim.Reader{Management: memory, Namespace: "drover-system"},
		}
		if err := a.review(t.Context(), open("csr-1")); err != nil {
			t.Fatal(err)
		}
		if made := len(recorder.Events); made != test.events {
			t.Errorf("%s: %d events, want %d", name, made, test.events)
		}
	}
}
