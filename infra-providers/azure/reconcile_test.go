// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

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
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("azure", "../config/rbac/azure/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// group is where the virtual machines of the fake are.
const group = "azure:///subscriptions/" + azurefake.Subscription + "/resourceGroups/" + azurefake.ResourceGroup + "/providers/Microsoft.Compute/virtualMachines/"

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{ListDelay: 2, CreateReads: 1, DeleteReads: 1, NetworkReads: 1, NetworkDeleteReads: 1, KeepsAttached: true})
	s := serve(t, arm)
	s.Create(credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.AzureMachineSpec) {
		s.CredentialsSecretName, s.SubscriptionID = account.SecretName, "" // it is the Secret's
		everything(s)
	}))
	s.CreateMachine(machine, "3")

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal(group + "worker-1"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("3"))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineHostName}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(arm.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(arm.cloud.Requests()).To(gomega.HaveLen(1))
}

// TestReconcileFallback has a zone without capacity, which is known only after the virtual machine was accepted, and a fallback
// in another one.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{CreateReads: 1, DeleteReads: 1})
	arm.cloud.FailNext(azurefake.Fault{On: putMachine, Allocation: "ZonalAllocationFailed", LeavesDisks: true})
	s := serve(t, arm)
	s.Create(credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.AzureMachineSpec) {
		everything(s)
		s.CredentialsSecretName = account.SecretName
		s.Fallbacks = []infrav1.AzureFallback{{VMSize: "Standard_D4s_v5", Zone: "2", Priority: "Spot"}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("2"))
	s.Expect(arm.cloud.Requests()).To(gomega.HaveLen(2))

	s.Delete(machine)
	s.Expect(arm.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	s := serve(t, arm)
	s.Create(credentialsSecret())
	wrong := secretNamed("wrong")
	wrong.Data["clientSecret"] = []byte("guessed")
	s.Create(wrong)
	escaping := secretNamed("escaping")
	escaping.Data["tenantID"] = []byte("../../evil.example.org")
	s.Create(escaping)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := arm.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.AzureMachineSpec)
		want    string
		message string
	}{
		"wrong-password":  {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "wrong" }, infrav1.UnauthorizedReason, "invalid_client AADSTS7000215"},
		"escaping-tenant": {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "escaping" }, infrav1.UnauthorizedReason, "is no tenant"},
		"no-secret":       {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":    {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "lacks one of the keys"},
		"wrong-group":     {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "gone" }, infrav1.UnauthorizedReason, "ResourceGroupNotFound"},
		"wrong-size":      {func(s *infrav1.AzureMachineSpec) { s.VMSize = "Standard_X2" }, infrav1.InvalidConfigurationReason, "spec.vmSize"},
		"wrong-image":     {func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.SKU = "gone" }, infrav1.InvalidConfigurationReason, "spec.image: Azure: NotFound"},
		"wrong-subnet":    {func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.SubnetID += "x" }, infrav1.InvalidConfigurationReason, "spec.networkInterface"},
		"odd-provider-id": {func(s *infrav1.AzureMachineSpec) { s.ProviderID = "azure:///subscriptions/other" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.AzureMachineSpec) {
				s.CredentialsSecretName = account.SecretName
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake Azure, with a namespace and a Cluster of its own.
func serve(t *testing.T, arm env) *testenv.Harness {
	t.Helper()
	return providertest.Serve(t, shared, arm.description())
}

func newMachine(name string, spec infrav1.AzureMachineSpec) *infrav1.AzureMachine {
	return &infrav1.AzureMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: azurefake.Secret()}
}

func credentialsSecret() *corev1.Secret { return secretNamed(account.SecretName) }
