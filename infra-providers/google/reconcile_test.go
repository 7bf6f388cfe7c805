// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

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
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("google", "../config/rbac/google/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{ListDelay: 2, OperationReads: 1, StoppingReads: 1})
	s := serve(t, gce)
	s.Create(gce.credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.GoogleMachineSpec) {
		s.CredentialsSecretName = "google"
		withDisk(s)
		s.NetworkInterfaces[0].ExternalIP, s.NetworkInterfaces[0].StackType = ptr.To(true), "IPV4_IPV6"
	}))
	s.CreateMachine(machine, googlefake.ZoneB)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal("gce://drover-test/europe-west3-b/worker-1"))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("europe-west3-b"))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineExternalIP,
		clusterv1.MachineInternalDNS, clusterv1.MachineInternalDNS, clusterv1.MachineInternalDNS, clusterv1.MachineHostName}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(gce.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(gce.cloud.Counts()["instances.insert"]).To(gomega.Equal(1))
}

// TestReconcileFallback has a type without capacity, and a fallback in the other zone.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	s := serve(t, gce)
	s.Create(gce.credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.GoogleMachineSpec) {
		s.CredentialsSecretName, s.MachineType = "google", googlefake.NoCapacity
		s.Fallbacks = []infrav1.GoogleFallback{{MachineType: "n4-standard-4", Zone: googlefake.ZoneB, ProvisioningModel: "SPOT"}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal("gce://drover-test/europe-west3-b/worker-2"))

	s.Delete(machine)
	s.Expect(gce.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	s := serve(t, gce)
	s.Create(gce.credentialsSecret())
	elsewhere := gce.credentialsSecret()
	elsewhere.Name = "elsewhere"
	elsewhere.Data = map[string][]byte{"serviceaccount.json": []byte(`{"type":"external_account","token_url":"https://169.254.169.254/"}`)}
	s.Create(elsewhere)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := gce.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.GoogleMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "service_account"},
		"no-secret":         {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "serviceaccount.json"},
		"wrong-type":        {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "n9-huge-2" }, infrav1.InvalidConfigurationReason, "n9-huge-2"},
		"wrong-image":       {func(s *infrav1.GoogleMachineSpec) { s.Image.Family = "gone" }, infrav1.InvalidConfigurationReason, "spec.image: notFound"},
		"wrong-subnetwork":  {func(s *infrav1.GoogleMachineSpec) { s.NetworkInterfaces[0].Subnetwork = "gone" }, infrav1.InvalidConfigurationReason, "subnetworks/gone"},
		"no-room":           {func(s *infrav1.GoogleMachineSpec) { s.MachineType = googlefake.NoCapacity }, infrav1.InsufficientCapacityReason, googlefake.NoCapacity},
		"odd-provider-id":   {func(s *infrav1.GoogleMachineSpec) { s.ProviderID = "gce://other-project/a/b" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.GoogleMachineSpec) {
				s.CredentialsSecretName = "google"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, gce.credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake Compute Engine, with a namespace and a Cluster of its own.
func serve(t *testing.T, gce env) *testenv.Harness {
	t.Helper()
	gce.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, gce.description())
}

func newMachine(name string, spec infrav1.GoogleMachineSpec) *infrav1.GoogleMachine {
	return &infrav1.GoogleMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (w env) credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "google"}, Data: w.secret()}
}
