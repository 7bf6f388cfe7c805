// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

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
	"drover.io/infra-providers/yandex/yandexfake"
)

var shared = testenv.NewShared("yandex", "../config/rbac/yandex/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{ListDelay: 2, OperationReads: 1, DeletingReads: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.YandexMachineSpec) {
		s.CredentialsSecretName = "yandex"
		withDisk(s)
		s.NetworkInterfaces[0].ExternalIP, s.NetworkInterfaces[0].IPv6 = ptr.To(true), ptr.To(true)
	}))
	s.CreateMachine(machine, yandexfake.ZoneB)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp("^yandex://fhm[0-9]{15}$"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(yandexfake.ZoneB))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP,
		clusterv1.MachineInternalDNS, clusterv1.MachineInternalDNS, clusterv1.MachineHostName}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Counts()["Instance/Create"]).To(gomega.Equal(1))
	s.Expect(w.cloud.Counts()["Disk/Create"]).To(gomega.Equal(2))
}

// TestReconcileFallback has a platform without capacity, and a fallback in the other zone.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 1, DeletingReads: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.YandexMachineSpec) {
		s.CredentialsSecretName, s.PlatformID = "yandex", yandexfake.NoCapacity
		s.Fallbacks = []infrav1.YandexFallback{{PlatformID: "standard-v3", Zone: yandexfake.ZoneB, Preemptible: ptr.To(true)}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(yandexfake.ZoneB))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{DeletingReads: 1})
	s := serve(t, w)
	s.Create(w.credentialsSecret())
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Data: map[string][]byte{"iam-token": []byte("t1.unknown")}})
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.YandexMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.YandexMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "invalid or has expired"},
		"no-secret":         {func(s *infrav1.YandexMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.YandexMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "key.json"},
		"wrong-platform":    {func(s *infrav1.YandexMachineSpec) { s.PlatformID = "standard-v9" }, infrav1.InvalidConfigurationReason, "standard-v9"},
		"wrong-image":       {func(s *infrav1.YandexMachineSpec) { s.Image.Family = "gone" }, infrav1.InvalidConfigurationReason, "spec.image: NotFound"},
		"wrong-subnet": {func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces[0].Subnets[0].SubnetID = "gone" },
			infrav1.InvalidConfigurationReason, "Subnet gone not found"},
		"no-subnet": {func(s *infrav1.YandexMachineSpec) { s.Zone = "ru-central1-d" }, infrav1.InvalidConfigurationReason, "spec.networkInterfaces[0].subnets"},
		"no-room":   {func(s *infrav1.YandexMachineSpec) { s.PlatformID = yandexfake.NoCapacity }, infrav1.InsufficientCapacityReason, yandexfake.NoCapacity},
		"odd-provider-id": {func(s *infrav1.YandexMachineSpec) { s.ProviderID = "gce://other-project/a/b" },
			infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.YandexMachineSpec) {
				s.CredentialsSecretName = "yandex"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, w.credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake Yandex Cloud, with a namespace and a Cluster of its own.
func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	w.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, w.description())
}

func newMachine(name string, spec infrav1.YandexMachineSpec) *infrav1.YandexMachine {
	return &infrav1.YandexMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (w env) credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "yandex"}, Data: w.secret()}
}
