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
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("digitalocean", "../../config/rbac/digitalocean/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcile runs the provider with its role, with tokens of Secrets, slow actions and late lists.
func TestReconcile(t *testing.T) {
	cloud, err := digitaloceanfake.Start(digitaloceanfake.Options{ActionDelay: 2, TagDelay: 1, ListDelay: 4, Limited: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	t.Setenv("DIGITALOCEAN_API_URL", cloud.Endpoint)
	t.Setenv("DIGITALOCEAN_TOKEN", "")
	s := shared.NewHarness(t, "digitalocean")
	s.Create(tokenSecret("good", digitaloceanfake.Token))
	providertest.Run(t, shared.Provider(t), s.Home.Namespace, digitalocean.Cloud(digitalocean.Options{}))
	t.Run("creates and deletes a Droplet", func(t *testing.T) { reconcileMachine(s.In(t), cloud) })
	t.Run("recovers from an invalid token without a restart", func(t *testing.T) { reconcileInvalidToken(s.In(t)) })
	t.Run("deletes a machine with an invalid size", func(t *testing.T) { reconcileInvalidSize(s.In(t)) })
	t.Run("takes a fallback", func(t *testing.T) { reconcileFallback(s.In(t), cloud) })
	t.Run("sets the capacity of a template", func(t *testing.T) { reconcileTemplate(s.In(t)) })
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
	for _, violation := range cloud.Violations() {
		t.Errorf("violation of the description of the API: %s", violation)
	}
}

func reconcileMachine(s *testenv.Harness, cloud *digitaloceanfake.Cloud) {
	machine := &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: infrav1.DigitalOceanMachineSpec{
		CredentialsSecretName: "good", Size: "s-2vcpu-4gb", Region: "nyc3", ImageName: "node", ReservedIP: ptr.To(true), IPv6: ptr.To(true),
		Volumes: []infrav1.DigitalOceanVolume{{Name: "data", SizeGiB: 10}},
	}}
	owner := s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	created := cloud.Droplets()[0]
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("digitalocean://%d", created.ID)))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("nyc3"))
	s.Expect(machine.Status.Account).To(gomega.Equal("digitalocean/" + digitaloceanfake.Team))
	var kinds []clusterv1.MachineAddressType
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	s.Expect(kinds).To(gomega.Equal([]clusterv1.MachineAddressType{
		clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineExternalIP,
	}))
	s.Expect(created.Request["user_data"]).To(gomega.Equal("#cloud-config\n"))
	s.Expect(created.ReservedIPs).To(gomega.HaveLen(1))
	s.Expect(created.Volumes).To(gomega.HaveLen(1))
	s.Delete(machine, owner)
}

func reconcileInvalidToken(s *testenv.Harness) {
	s.Create(tokenSecret("rotated", "wrong"))
	machine := newWorker("worker-2", "rotated", "s-2vcpu-4gb")
	owner := s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.UnauthorizedReason)
	s.Put(tokenSecret("rotated", digitaloceanfake.Token))
	// Secrets are not watched: the next reconcile of the machine uses the new token, at the latest after a minute.
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Delete(machine, owner)
}

func newWorker(name, secret, size string) *infrav1.DigitalOceanMachine {
	return &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.DigitalOceanMachineSpec{
		CredentialsSecretName: secret, Size: size, Region: "nyc3", Image: "ubuntu-24-04-x64",
	}}
}

func reconcileInvalidSize(s *testenv.Harness) {
	machine := newWorker("worker-3", "good", "huge")
	owner := s.CreateMachine(machine, "")
	s.Expect(s.WaitForReason(machine, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.size"))
	s.Delete(machine, owner)
}

func reconcileFallback(s *testenv.Harness, cloud *digitaloceanfake.Cloud) {
	machine := newWorker("worker-4", "good", "s-2vcpu-4gb")
	machine.Spec.Fallbacks = []infrav1.DigitalOceanFallback{{Region: "fra1"}}
	cloud.SellOut()
	owner := s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("fra1"))
	s.Delete(machine, owner)
}

func reconcileTemplate(s *testenv.Harness) {
	created := &infrav1.DigitalOceanMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	created.Spec.Template.Spec = newWorker("", "good", "s-4vcpu-8gb").Spec
	s.Create(created)
	s.Eventually(func(g gomega.Gomega) {
		s.Fetch(g, created)
		g.Expect(created.Status.Capacity.Cpu().String()).To(gomega.Equal("4"))
	}).Should(gomega.Succeed())
}

func tokenSecret(name, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"token": []byte(token)}}
}
