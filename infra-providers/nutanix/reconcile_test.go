// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

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
	"drover.io/infra-providers/nutanix/nutanixfake"
)

var shared = testenv.NewShared("nutanix", "../config/rbac/nutanix/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{ListDelay: 2, TaskRequests: 3})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.NutanixMachineSpec) {
		s.CredentialsSecretName = "nutanix"
		withDisk(s)
	}))
	s.CreateMachine(machine, nutanixfake.ClusterB)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp("^nutanix://[-0-9a-f]{36}$"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(nutanixfake.ClusterB))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineHostName}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Counts()["POST vms"]).To(gomega.Equal(1))
	s.Expect(w.cloud.Counts()["DELETE vms/{id}"]).To(gomega.Equal(1))
}

func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.NutanixMachineSpec) {
		s.CredentialsSecretName, s.Cluster = "nutanix", nutanixfake.FullCluster
		s.Fallbacks = []infrav1.NutanixFallback{{Cluster: nutanixfake.ClusterB}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(nutanixfake.ClusterB))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
}

func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	elsewhere := w.credentialsSecret()
	elsewhere.Name, elsewhere.Data["NUTANIX_PASSWORD"] = "elsewhere", []byte("wrong")
	s.Create(elsewhere)
	unknownAuthority := w.credentialsSecret()
	unknownAuthority.Name = "unknown-authority"
	delete(unknownAuthority.Data, "NUTANIX_CA_BUNDLE")
	s.Create(unknownAuthority)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.NutanixMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.NutanixMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "the credentials are invalid"},
		"no-secret":         {func(s *infrav1.NutanixMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.NutanixMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "NUTANIX_ENDPOINT is missing"},
		"wrong-cluster":     {func(s *infrav1.NutanixMachineSpec) { s.Cluster = "gone" }, infrav1.InvalidConfigurationReason, `Prism Central has no cluster "gone"`},
		"wrong-image":       {func(s *infrav1.NutanixMachineSpec) { s.Image.Name = "gone" }, infrav1.InvalidConfigurationReason, "spec.image.name"},
		"ambiguous-image":   {func(s *infrav1.NutanixMachineSpec) { s.Image.Name = nutanixfake.AmbiguousImage }, infrav1.InvalidConfigurationReason, "2 images have the name"},
		"wrong-subnet":      {func(s *infrav1.NutanixMachineSpec) { s.NetworkInterfaces[0].Subnet = "gone" }, infrav1.InvalidConfigurationReason, "spec.networkInterfaces[0].subnet"},
		"wrong-category": {func(s *infrav1.NutanixMachineSpec) { s.Categories = []infrav1.NutanixCategory{{Key: "a", Value: "b"}} },
			infrav1.InvalidConfigurationReason, "create it first"},
		"no-room":         {func(s *infrav1.NutanixMachineSpec) { s.Cluster = nutanixfake.FullCluster }, infrav1.InsufficientCapacityReason, "NO_HOST_RESOURCES"},
		"odd-provider-id": {func(s *infrav1.NutanixMachineSpec) { s.ProviderID = "gce://other-project/a/b" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.NutanixMachineSpec) {
				s.CredentialsSecretName = "nutanix"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, w.credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	w.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, w.description())
}

func newMachine(name string, spec infrav1.NutanixMachineSpec) *infrav1.NutanixMachine {
	return &infrav1.NutanixMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (w env) credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "nutanix"}, Data: w.secret()}
}
