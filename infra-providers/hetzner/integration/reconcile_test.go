// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("hetzner", "../../config/rbac/hetzner/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcile runs the provider with its role, with tokens of Secrets and slow actions.
func TestReconcile(t *testing.T) {
	cloud, err := hetznerfake.Start(hetznerfake.Options{ActionDelay: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	t.Setenv("HCLOUD_ENDPOINT", cloud.Endpoint)
	t.Setenv("HCLOUD_TOKEN", "")
	clock := drivertest.NewClock()
	clock.Run(100) // the windows of the driver are minutes
	s := shared.NewHarness(t, "hetzner")
	s.Create(tokenSecret("good", hetznerfake.Token))
	providertest.Run(t, shared.Provider(t), s.Home.Namespace, hetzner.Cloud(hetzner.Options{Clock: clock}))
	t.Run("creates and deletes a server", func(t *testing.T) { reconcileMachine(s.In(t), cloud) })
	t.Run("recovers from an invalid token without a restart", func(t *testing.T) { reconcileInvalidToken(s.In(t)) })
	t.Run("deletes a machine with an invalid server type", func(t *testing.T) { reconcileInvalidType(s.In(t)) })
	t.Run("sets the capacity of a template", func(t *testing.T) { reconcileTemplate(s.In(t)) })
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
	for _, violation := range cloud.Violations() {
		t.Errorf("violation of the description of the API: %s", violation)
	}
}

func reconcileMachine(s *testenv.Harness, cloud *hetznerfake.Cloud) {
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "good", ServerType: "cx33", Location: "nbg1", Image: "ubuntu-24.04", Backups: ptr.To(true),
		Networks: []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24"}},
		Volumes:  []infrav1.HetznerVolume{{Name: "data", SizeGB: 10}},
	}}
	owner := s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	server := cloud.CreatedServers()[0].Server
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("hcloud://%d", server.ID)))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("nbg1"))
	s.Expect(machine.Status.Addresses).To(gomega.Equal([]clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "worker-1"},
		{Type: clusterv1.MachineInternalIP, Address: "10.0.1.2"},
		{Type: clusterv1.MachineExternalIP, Address: server.PublicNet.IPv4.IP},
		{Type: clusterv1.MachineExternalIP, Address: fmt.Sprintf("2001:db8:%x::1", server.ID)},
	}))
	s.Expect(cloud.CreatedServers()[0].UserData).To(gomega.Equal("#cloud-config\n"))
	s.Delete(machine, owner)
}

func reconcileInvalidToken(s *testenv.Harness) {
	s.Create(tokenSecret("rotated", "wrong"))
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "rotated", ServerType: "cx33", Image: "ubuntu-24.04",
	}}
	owner := s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.UnauthorizedReason)
	s.Put(tokenSecret("rotated", hetznerfake.Token))
	// Secrets are not watched: the next reconcile of the machine uses the new token, at the latest after a minute.
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Delete(machine, owner)
}

func reconcileInvalidType(s *testenv.Harness) {
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "good", ServerType: "huge", Image: "ubuntu-24.04",
	}}
	owner := s.CreateMachine(machine, "")
	s.Expect(s.WaitForReason(machine, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.serverType"))
	s.Delete(machine, owner)
}

func reconcileTemplate(s *testenv.Harness) {
	created := &infrav1.HetznerMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "arm"}}
	created.Spec.Template.Spec = infrav1.HetznerMachineSpec{CredentialsSecretName: "good", ServerType: "cax21", Image: "ubuntu-24.04"}
	s.Create(created)
	s.Eventually(func(g gomega.Gomega) {
		s.Fetch(g, created)
		g.Expect(created.Status.NodeInfo).To(gomega.Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
		g.Expect(created.Status.Capacity.Cpu().String()).To(gomega.Equal("4"))
	}).Should(gomega.Succeed())
}

func tokenSecret(name, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"token": []byte(token)}}
}
