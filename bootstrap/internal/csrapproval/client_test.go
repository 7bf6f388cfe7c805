// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/bootstrap/internal/token"
)

// waitingMachine has no Node yet, and a bootstrap token in the workload cluster, with which the kubelet is who it is.
func waitingMachine(t *testing.T, name string) (*clusterv1.Machine, *rest.Config) {
	t.Helper()
	machine := newMachine(t, name)
	machine.Status.NodeRef.Name = ""
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(workloads.Admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.EnsureAccess(t.Context(), admin.RbacV1()); err != nil {
		t.Fatal(err)
	}
	made, err := token.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.Ensure(t.Context(), admin.CoreV1(), token.Request{Token: made, MachineUID: machine.UID, TTL: time.Hour, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(workloads.Admin)
	config.BearerToken = made.Value()
	return machine, config
}

func askFirst(t *testing.T, as *rest.Config, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return send(t, as, node, &x509.CertificateRequest{}, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
}

func TestApprovesTheFirstClientCertificateOfAMachine(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	_, kubelet := waitingMachine(t, "first-1")
	csr := askFirst(t, kubelet, "first-1")
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
}

func TestLeavesARequestForTheNameOfAnotherMachineAlone(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	machine, kubelet := waitingMachine(t, "greedy-1")
	csr := askFirst(t, kubelet, "greedy-2")
	g.Eventually(func() string { return notes(t, machine.Namespace) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.ContainSubstring(
		"CertificateRequestLeftAlone: certificate request " + csr.Name + ` of the workload cluster was not approved: the Machine does not have the name "greedy-2"`))
	if got := decision(t, csr); got != "" {
		t.Errorf("decision = %q, want none", got)
	}
}
