// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

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
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("alibaba", "../config/rbac/alibaba/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and credentials of
// a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ListDelay: 2, PendingReads: 1, StoppingReads: 1})
	s := serve(t, w)
	s.Create(credentialsSecret())
	machine := newMachine("worker-1", newSpec(func(s *infrav1.AlibabaMachineSpec) {
		s.CredentialsSecretName = "alibaba"
		withDisk(s)
		s.InternetMaxBandwidthOut, s.IPv6AddressCount = ptr.To[int32](5), ptr.To[int32](1)
	}))
	s.CreateMachine(machine, alibabafake.ZoneB)

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.MatchRegexp(`^alicloud://eu-central-1\.i-gw8[0-9a-f]{15}$`))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(alibabafake.ZoneB))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{
		clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP, clusterv1.MachineHostName, clusterv1.MachineInternalDNS,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(w.cloud.Counts()["RunInstances"]).To(gomega.Equal(1))
}

// TestReconcileFallback has a type without stock, and a fallback in the other zone.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{StoppingReads: 1, ReplayRefusals: true})
	s := serve(t, w)
	s.Create(credentialsSecret())
	machine := newMachine("worker-2", newSpec(func(s *infrav1.AlibabaMachineSpec) {
		s.CredentialsSecretName, s.InstanceType = "alibaba", alibabafake.NoStock
		s.Fallbacks = []infrav1.AlibabaFallback{{InstanceType: "ecs.g8i.large", ZoneID: alibabafake.ZoneB, Market: "Spot"}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(alibabafake.ZoneB))

	s.Delete(machine)
	s.Expect(w.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{StoppingReads: 1})
	s := serve(t, w)
	s.Create(credentialsSecret())
	wrong := credentialsSecret()
	wrong.Name, wrong.Data["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = "elsewhere", []byte("another")
	s.Create(wrong)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	t.Cleanup(func() {
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.AlibabaMachineSpec)
		want    string
		message string
	}{
		"other-credentials": {func(s *infrav1.AlibabaMachineSpec) { s.CredentialsSecretName = "elsewhere" }, infrav1.UnauthorizedReason, "rejects the signature"},
		"no-secret":         {func(s *infrav1.AlibabaMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.AlibabaMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "ALIBABA_CLOUD_ACCESS_KEY"},
		"wrong-type":        {func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "ecs.g99.large" }, infrav1.InvalidConfigurationReason, "spec.instanceType"},
		"wrong-image":       {func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{Family: "gone"} }, infrav1.InvalidConfigurationReason, "spec.image"},
		"wrong-vswitch":     {func(s *infrav1.AlibabaMachineSpec) { s.VSwitches[0].VSwitchID = "vsw-gone" }, infrav1.InvalidConfigurationReason, "spec.vSwitches"},
		"no-vswitch":        {func(s *infrav1.AlibabaMachineSpec) { s.ZoneID = "eu-central-1c" }, infrav1.InvalidConfigurationReason, "spec.vSwitches"},
		"no-stock":          {func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = alibabafake.NoStock }, infrav1.InsufficientCapacityReason, alibabafake.NoStock},
		"odd-provider-id":   {func(s *infrav1.AlibabaMachineSpec) { s.ProviderID = "alicloud://cn-hangzhou.i-1" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.AlibabaMachineSpec) {
				s.CredentialsSecretName = "alibaba"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, credentialsSecret(), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake ECS, with a namespace and a Cluster of its own.
func serve(t *testing.T, w env) *testenv.Harness {
	t.Helper()
	w.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, w.description())
}

func newMachine(name string, spec infrav1.AlibabaMachineSpec) *infrav1.AlibabaMachine {
	return &infrav1.AlibabaMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "alibaba"}, Data: secret()}
}
