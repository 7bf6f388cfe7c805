// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/onsi/gomega"
	"github.com/vmware/govmomi/simulator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

var shared = testenv.NewShared("vsphere", "../../config/rbac/vsphere/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcile creates a machine that runs, and machines with invalid credentials, templates and networks, and deletes
// them all.
func TestReconcile(t *testing.T) {
	t.Parallel()
	s := shared.NewHarness(t, "vsphere")
	server, model := startVCenter(t)
	s.Create(credentialsSecret("good", server, "secret"))
	s.Create(credentialsSecret("bad", server, "wrong"))
	serve(t, s)

	good := newMachine("worker-1", infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "DC0_C0_RP0_VM0"})
	unauthorized := newMachine("worker-2", infrav1.VSphereMachineSpec{CredentialsSecretName: "bad", Template: "DC0_C0_RP0_VM0"})
	noTemplate := newMachine("worker-3", infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "nope"})
	noNetwork := newMachine("worker-4", infrav1.VSphereMachineSpec{
		CredentialsSecretName: "good", Template: "DC0_C0_RP0_VM0", Networks: []infrav1.VSphereNetwork{{Name: "VM Network"}, {Name: "nope"}},
	})
	for _, machine := range []*infrav1.VSphereMachine{good, unauthorized, noTemplate, noNetwork} {
		s.CreateMachine(machine, "")
	}

	s.WaitForReason(good, infrav1.InstanceRunningReason)
	s.Expect(good.Spec.ProviderID).To(gomega.Equal("vsphere://" + string(good.UID)))
	s.Expect(ptr.Deref(good.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(biosUUID(model, "worker-1")).To(gomega.Equal(string(good.UID)))

	s.WaitForReason(unauthorized, infrav1.UnauthorizedReason)
	s.Expect(s.WaitForReason(noTemplate, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.template"))
	s.Expect(s.WaitForReason(noNetwork, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.networks[1].name"))

	// Without valid credentials it is unknown whether a virtual machine is left, so they come first.
	s.Put(credentialsSecret("bad", server, "secret"))
	s.Delete(good, unauthorized, noTemplate, noNetwork)
	for _, left := range model.Map().All("VirtualMachine") {
		s.Expect(left.(*simulator.VirtualMachine).Name).NotTo(gomega.HavePrefix("worker-"))
	}
}

// TestMachineOfAnUnknownDatacenterIsDeleted at once, although no list of that datacenter succeeds.
func TestMachineOfAnUnknownDatacenterIsDeleted(t *testing.T) {
	t.Parallel()
	s := shared.NewHarness(t, "vsphere")
	server, _ := startVCenter(t)
	s.Create(credentialsSecret("good", server, "secret"))
	serve(t, s)
	machine := newMachine("worker-1", infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "DC0_C0_RP0_VM0", Datacenter: "nope"})
	s.CreateMachine(machine, "")
	s.Expect(s.WaitForReason(machine, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.datacenter"))
	s.Delete(machine)
}

// TestTemplateCapacity requires the capacity of a template, which scaling from zero needs.
func TestTemplateCapacity(t *testing.T) {
	t.Parallel()
	s := shared.NewHarness(t, "vsphere")
	server, _ := startVCenter(t)
	s.Create(credentialsSecret("good", server, "secret"))
	serve(t, s)
	template := &infrav1.VSphereMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "x", CPUs: 8, MemoryMiB: 16384}
	s.Create(template)
	s.Eventually(func(g gomega.Gomega) {
		s.Fetch(g, template)
		g.Expect(template.Status.Capacity.Cpu().String()).To(gomega.Equal("8"))
		g.Expect(template.Status.Capacity.Memory().String()).To(gomega.Equal("16Gi"))
	}).Should(gomega.Succeed())
}

// startVCenter starts a vCenter and returns its URL.
func startVCenter(t *testing.T) (string, *simulator.Model) {
	t.Helper()
	model := simulator.VPX()
	model.Autostart, model.Host = false, 0
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Remove)
	model.Service.Listen = &url.URL{User: url.UserPassword("drover", "secret")}
	server := model.Service.NewServer()
	t.Cleanup(server.Close)
	at := *server.URL
	at.User = nil
	return at.String(), model
}

// serve runs the provider with its role until the test ends.
func serve(t *testing.T, s *testenv.Harness) {
	t.Helper()
	sessions := &vcenter.Pool{}
	t.Cleanup(func() { // after the provider has ended
		if err := sessions.Close(context.Background()); err != nil {
			t.Errorf("logging out: %v", err)
		}
	})
	providertest.Run(t, shared.Provider(t), s.Home.Namespace, vsphere.Cloud(sessions))
}

func credentialsSecret(name, server, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		StringData: map[string]string{"server": server, "username": "drover", "password": password},
	}
}

func newMachine(name string, spec infrav1.VSphereMachineSpec) *infrav1.VSphereMachine {
	return &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// biosUUID returns the BIOS UUID of a virtual machine.
func biosUUID(model *simulator.Model, name string) string {
	for _, candidate := range model.Map().All("VirtualMachine") {
		if known := candidate.(*simulator.VirtualMachine); known.Name == name {
			return known.Config.Uuid
		}
	}
	return ""
}
