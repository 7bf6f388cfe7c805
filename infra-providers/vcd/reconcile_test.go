// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"os"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/vcd/vcdfake"
)

var shared = testenv.NewShared("vcd", "../config/rbac/vcd/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and credentials of a
// Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{TaskRequests: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "vcd" }))
	s.CreateMachine(machine, vcdfake.PlacementPolicy)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp("^vmware-cloud-director://urn:vcloud:vm:[0-9a-f-]{36}$"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(vcdfake.PlacementPolicy))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(machine.Status.CloudAddresses).To(gomega.HaveLen(2))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Counts()["recompose"]).To(gomega.Equal(1))
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	wrong := w.credentialsSecret()
	wrong.Name, wrong.Data["apiToken"] = "wrong", []byte("other")
	s.Create(wrong)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.VCDMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "wrong" }, infrav1.UnauthorizedReason, "invalid_grant"},
		"no-secret":         {func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "organization"},
		"wrong-template":    {func(s *infrav1.VCDMachineSpec) { s.Template = "gone" }, infrav1.InvalidConfigurationReason, `spec.template: the catalog "images" has no vApp template "gone"`},
		"wrong-network":     {func(s *infrav1.VCDMachineSpec) { s.Networks[0].Name = "gone" }, infrav1.InvalidConfigurationReason, "spec.networks[0].name"},
		"odd-provider-id":   {func(s *infrav1.VCDMachineSpec) { s.ProviderID = "gce://other-project/a/b" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.VCDMachineSpec) {
				s.CredentialsSecretName = "vcd"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, w.credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake Cloud Director, with a namespace and a Cluster of its own.
func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	w.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, w.description())
}

func newMachine(name string, spec infrav1.VCDMachineSpec) *infrav1.VCDMachine {
	return &infrav1.VCDMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}
