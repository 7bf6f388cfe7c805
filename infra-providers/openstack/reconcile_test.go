// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/openstack"
)

var shared = testenv.NewShared("openstack", "../config/rbac/openstack/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// serve runs the provider with its role in a namespace of its own, with credentials in the Secret "cloud".
func serve(t *testing.T, transport http.RoundTripper, credentials driver.Credentials) *testenv.Harness {
	t.Helper()
	s := shared.NewHarness(t, "openstack")
	if credentials != nil {
		s.Create(credentialsSecret(credentials))
	}
	providertest.Run(t, shared.Provider(t), s.Home.Namespace, openstack.Cloud(openstack.Options{Transport: transport}))
	return s
}

func credentialsSecret(credentials driver.Credentials) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Data: credentials}
}

func newMachine(name string, spec infrav1.OpenStackMachineSpec) *infrav1.OpenStackMachine {
	return &infrav1.OpenStackMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := serve(t, r.faults, r.secret)
	spec := fullSpec()
	spec.CredentialsSecretName, spec.RootVolume = "cloud", infrav1.OpenStackVolume{SizeGiB: 20}
	machine := newMachine("worker-1", spec)
	s.CreateMachine(machine, "zone-b")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("openstack://RegionOne/%s", r.only(t, "servers")["id"])))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("zone-b"))
	s.Expect(machine.Status.Addresses).To(gomega.ContainElements(
		gomega.HaveField("Type", clusterv1.MachineInternalIP), gomega.HaveField("Type", clusterv1.MachineExternalIP),
		clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "worker-1"}))
	s.Delete(machine)
	s.Expect(r.Leftovers()).To(gomega.BeEmpty())
}

func TestReconcileTemplate(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := serve(t, r.faults, r.secret)
	template := &infrav1.OpenStackMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	template.Spec.Template.Spec = minimalSpec()
	template.Spec.Template.Spec.CredentialsSecretName = "cloud"
	s.Create(template)
	s.Eventually(func(g gomega.Gomega) {
		s.Fetch(g, template)
		g.Expect(template.Status.Capacity.Memory().String()).To(gomega.Equal("512Mi"))
		g.Expect(template.Status.NodeInfo).To(gomega.Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
	}).Should(gomega.Succeed())
}

func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := serve(t, r.faults, r.secret)
	spec := minimalSpec()
	spec.CredentialsSecretName, spec.Flavor = "cloud", "nonsense"
	machine := newMachine("unknown-flavor", spec)
	s.CreateMachine(machine, "")
	s.Expect(s.WaitForReason(machine, infrav1.InvalidConfigurationReason)).To(gomega.ContainSubstring("spec.flavor"))
	s.Delete(machine)
	s.Expect(r.Leftovers()).To(gomega.BeEmpty())
}

func TestReconcileWithChangedCredentials(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.ChangePassword("another")
	s := serve(t, r.faults, r.secret)
	spec := minimalSpec()
	spec.CredentialsSecretName = "cloud"
	machine := newMachine("refused", spec)
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.UnauthorizedReason)
	changed := maps.Clone(r.secret)
	changed["OS_PASSWORD"] = []byte("another")
	s.Put(credentialsSecret(changed))
	s.Delete(machine)
}

// TestRealReconcileMachines creates several machines with real services and with credentials of the environment.
func TestRealReconcileMachines(t *testing.T) {
	real(t)
	s := serve(t, nil, nil)
	s.SetDefaultEventuallyTimeout(2 * realTimeout)
	began := time.Now()
	spec := realSpec()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	if pool := os.Getenv("OPENSTACK_EXTERNAL_NETWORK"); pool != "" {
		spec.FloatingIP.Network = pool
	}
	var machines []*infrav1.OpenStackMachine
	for n := range 5 {
		machines = append(machines, newMachine(fmt.Sprintf("%s-%d", s.Home.Namespace, n), spec))
		s.CreateMachine(machines[n], "")
	}
	ids := map[string]bool{}
	for _, machine := range machines {
		s.WaitForReason(machine, infrav1.InstanceRunningReason)
		s.Expect(regexp.MustCompile(`^openstack:///[0-9a-f-]{36}$`).MatchString(machine.Spec.ProviderID)).To(gomega.BeTrue(), machine.Spec.ProviderID)
		s.Expect(machine.Status.Addresses).To(gomega.ContainElement(gomega.HaveField("Type", clusterv1.MachineInternalIP)))
		if spec.FloatingIP.Network != "" {
			s.Expect(machine.Status.Addresses).To(gomega.ContainElement(gomega.HaveField("Type", clusterv1.MachineExternalIP)))
		}
		ids[machine.Spec.ProviderID] = true
	}
	s.Expect(ids).To(gomega.HaveLen(5))
	t.Logf("5 machines ran after %s", time.Since(began).Round(time.Second))
	s.Delete(machines[0])
	machines[0] = newMachine(s.Home.Namespace+"-5", spec)
	s.CreateMachine(machines[0], "")
	s.WaitForReason(machines[0], infrav1.InstanceRunningReason)
	t.Logf("one was replaced after %s", time.Since(began).Round(time.Second))
	suffix := string(s.Home.UID)
	s.Expect(slices.DeleteFunc(leftovers(t, suffix), func(thing string) bool {
		return !strings.HasPrefix(thing, "server ") || strings.HasPrefix(thing, "server group ")
	})).To(gomega.HaveLen(5), "one server of the Cluster per machine")
	for _, machine := range machines {
		s.Delete(machine)
		s.Expect(leftovers(t, string(machine.UID))).To(gomega.BeEmpty())
	}
	s.Expect(leftovers(t, suffix)).To(gomega.BeEmpty())
	t.Logf("nothing was left after %s", time.Since(began).Round(time.Second))
}

// TestRealInsufficientCapacity needs a flavor that fits on no host.
func TestRealInsufficientCapacity(t *testing.T) {
	real(t)
	flavor := os.Getenv("OPENSTACK_HUGE_FLAVOR")
	if flavor == "" {
		t.Skip("OPENSTACK_HUGE_FLAVOR is not set")
	}
	spec := realSpec()
	spec.Flavor = flavor
	d := connect(t, nil, driver.Account{}, nil)
	first := newRealRequest(t, d, spec)
	mustReachState(t, d, first)
	awaitFault(t, d, first.Identity)
	_, err := d.Create(t.Context(), newRealRequest(t, d, spec))
	if !driver.IsInsufficientCapacity(err) {
		t.Errorf("got %v, want an InsufficientCapacityError", err)
	}
}
