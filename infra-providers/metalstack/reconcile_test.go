// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

var shared = testenv.NewShared("metalstack", "../config/rbac/metalstack/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newFastEnv(t, metalstackfake.Options{InstallDelay: 2, ReleaseDelay: 1}, 100)
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.MetalStackMachineSpec) {
		allFields(s)
		s.CredentialsSecretName = "metal"
	}))
	s.CreateMachine(machine, "")

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp("^metal://fra-equ01/[-0-9]{36}$"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(metalstackfake.PartitionA))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{
		clusterv1.MachineInternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineHostName, clusterv1.MachineInternalDNS,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Count("allocateMachine")).To(gomega.Equal(1))
	s.Expect(w.cloud.Count("freeMachine")).To(gomega.Equal(1))
}

// TestReconcileFallback has a size without machines, and a fallback in the other partition.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	w := newFastEnv(t, metalstackfake.Options{}, 100)
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.MetalStackMachineSpec) {
		s.CredentialsSecretName, s.Size = "metal", metalstackfake.NoMachines
		s.Fallbacks = []infrav1.MetalStackFallback{{Size: metalstackfake.BigSize, Partition: metalstackfake.PartitionB}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(metalstackfake.PartitionB))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newFastEnv(t, metalstackfake.Options{}, 100)
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	wrong := w.credentialsSecret()
	wrong.Name, wrong.Data["METAL_API_HMAC"] = "elsewhere", []byte("another")
	s.Create(wrong)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.MetalStackMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.MetalStackMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "403"},
		"no-secret":         {func(s *infrav1.MetalStackMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.MetalStackMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "METAL_API_URL"},
		"other-project":     {func(s *infrav1.MetalStackMachineSpec) { s.Project = metalstackfake.OtherProject }, infrav1.InvalidConfigurationReason, "does not belong to the project"},
		"wrong-size":        {func(s *infrav1.MetalStackMachineSpec) { s.Size = "huge" }, infrav1.InvalidConfigurationReason, "spec.size"},
		"wrong-image":       {func(s *infrav1.MetalStackMachineSpec) { s.Image = "plan9-4.0" }, infrav1.InvalidConfigurationReason, "spec.image"},
		"wrong-network":     {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = "gone" }, infrav1.InvalidConfigurationReason, "spec.privateNetworks"},
		"no-machine":        {func(s *infrav1.MetalStackMachineSpec) { s.Size = metalstackfake.NoMachines }, infrav1.InsufficientCapacityReason, metalstackfake.NoMachines},
		"odd-provider-id":   {func(s *infrav1.MetalStackMachineSpec) { s.ProviderID = "metal://nothing" }, infrav1.InstanceMissingReason, ""},
		"a-firewall":        {func(s *infrav1.MetalStackMachineSpec) { s.ProviderID = "metal://fra-equ01/" + metalstackfake.Firewall }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.MetalStackMachineSpec) {
				s.CredentialsSecretName = "metal"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, w.credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake metal-stack, with a namespace and a Cluster of its own.
func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	return providertest.Serve(t, shared, w.description(nil))
}

func newMachine(name string, spec infrav1.MetalStackMachineSpec) *infrav1.MetalStackMachine {
	return &infrav1.MetalStackMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}
