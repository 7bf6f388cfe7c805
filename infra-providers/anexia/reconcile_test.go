// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

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
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("anexia", "../config/rbac/anexia/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role, credentials of
// a Secret and a journal in its object.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 1, InfoDelay: 1})
	s := serve(t, w)
	s.Create(credentialsSecret())
	machine := newMachine("worker-1", func(s *infrav1.AnexiaMachineSpec) {
		allFields(s)
		s.AvailabilityZoneID = ""
	})
	s.CreateMachine(machine, anexiafake.ZoneB)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp(`^anexia://[0-9a-f]{32}$`))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(anexiafake.ZoneB))
	s.Expect(machine.Status.Account).To(gomega.Equal("anexia/" + anexiafake.VLAN))
	s.Expect(machine.Annotations[infrav1.JournalAnnotation]).To(gomega.ContainSubstring(`"task"`))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	if diff := cmp.Diff([]clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP}, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	s.Expect(machine.Status.CloudAddresses).To(gomega.HaveLen(2))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Calls()["POST /api/vsphere/v1/provisioning/vm.json"]).To(gomega.Equal(1))
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	s := serve(t, w)
	s.Create(credentialsSecret())
	wrong := credentialsSecret()
	wrong.Name, wrong.Data["token"] = "elsewhere", []byte("another")
	s.Create(wrong)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.AnexiaMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.AnexiaMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "401"},
		"no-secret":         {func(s *infrav1.AnexiaMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.AnexiaMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "the key token"},
		"wrong-template":    {func(s *infrav1.AnexiaMachineSpec) { s.Template = "gone" }, infrav1.InvalidConfigurationReason, "spec.template"},
		"wrong-location":    {func(s *infrav1.AnexiaMachineSpec) { s.LocationID = "gone" }, infrav1.InvalidConfigurationReason, "spec.locationID"},
		"wrong-disk":        {func(s *infrav1.AnexiaMachineSpec) { s.Disks[0].PerformanceType = "FAST9" }, infrav1.InvalidConfigurationReason, "spec.disks[0].performanceType"},
		"no-address": {func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].PrefixIDs = []string{anexiafake.FullPrefix} }, infrav1.InsufficientCapacityReason,
			"no address is free"},
		"odd-provider-id": {func(s *infrav1.AnexiaMachineSpec) { s.ProviderID = "anexia://none" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, test.change)
			s.ExpectRefusal(machine, test.want, test.message, credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake Engine, with a namespace and a Cluster of its own.
func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	return providertest.Serve(t, shared, w.description())
}

func newMachine(name string, change func(*infrav1.AnexiaMachineSpec)) *infrav1.AnexiaMachine {
	return &infrav1.AnexiaMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: newSpec(func(s *infrav1.AnexiaMachineSpec) {
		s.CredentialsSecretName = "anexia"
		change(s)
	})}
}
