// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A request of a Node that is no Machine's is not approved, and that is reported once, after the time that a Machine may need to get its Node.
func TestForeignRequestIsReportedOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "empty", Name: "home"}}
	a := &approver{client: management.Client, cluster: cluster, events: newRecorder(recorder), log: logr.Discard()}
	request := func(age time.Duration) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "u", CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
			Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:unknown"},
		}
	}
	if err := a.review(t.Context(), request(0)); err != nil {
		t.Fatal(err)
	}
	if len(recorder.Events) > 0 {
		t.Errorf("reported a Node that may still get its Machine: %q", <-recorder.Events)
	}
	if err := a.review(t.Context(), request(nodeRefGrace)); err != nil {
		t.Fatal(err)
	}
	if err := a.review(t.Context(), request(nodeRefGrace)); err != nil {
		t.Fatal(err)
	}
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	want := []string{`Normal CertificateRequestNotApproved certificate request csr-1 for Node "unknown" of the workload cluster was ignored: it is not from a Machine of this Cluster`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
