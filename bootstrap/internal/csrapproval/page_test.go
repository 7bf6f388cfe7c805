// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/bootstrap/internal/workload"
)

// TestLongRequestsHideNoOthers: root on a worker creates requests that are too long for a page to be read. All others are
// listed and decided on, and the API server still counts as one that answers.
func TestLongRequestsHideNoOthers(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"of many labels": labelled(30_000, ""),
		"of long labels": labelled(8_000, strings.Repeat("x", 60)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			machine := newMachine(t, fmt.Sprint("long-", len(labels)))
			for range 3 {
				long := send(t, kubeletOf(machine.Name), machine.Name, &x509.CertificateRequest{DNSNames: []string{machine.Name}}, certificatesv1.KubeletServingSignerName,
					certificatesv1.UsageServerAuth, func(csr *certificatesv1.CertificateSigningRequest) { csr.Labels = labels })
				t.Cleanup(func() { _ = workloads.Client.Delete(context.Background(), long) })
			}
			connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "c1"})
			if err != nil {
				t.Fatal(err)
			}
			list, err := newListerWatcher(connection.Certificates, func(error) {}, func() {}).list(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if list.ResourceVersion == "" {
				t.Error("a list has no version to watch from")
			}
			if wait := connection.RetryAfter(); wait > 0 {
				t.Errorf("calls of the workload cluster fail at once for %s", wait)
			}
			csr := requestServing(t, machine.Name, "10.9.0.1")
			g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
		})
	}
}

func labelled(count int, value string) map[string]string {
	labels := map[string]string{}
	for n := range count {
		labels[fmt.Sprint("l", n)] = value
	}
	return labels
}
