// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/openstack"
)

// management is the management cluster of all tests; the first one starts it.
var management = sync.OnceValues(testenv.Start)

// shipped is a client configuration with the provider's role.
var shipped = sync.OnceValues(func() (*rest.Config, error) {
	cluster, err := management()
	if err != nil {
		return nil, err
	}
	return cluster.As(context.Background(), "drover-infra-openstack", "../config/rbac/openstack/role.yaml")
})

// running is true once the management cluster was started.
var running atomic.Bool

func TestMain(m *testing.M) {
	code := m.Run()
	if running.Load() {
		if cluster, err := management(); err == nil {
			_ = cluster.Stop()
		}
	}
	os.Exit(code)
}

// harness is a namespace with a Cluster, a provider at work there, and credentials in the Secret "cloud".
type harness struct {
	gomega.Gomega
	t       *testing.T
	cluster *testenv.Cluster
	home    *clusterv1.Cluster
}

func managed(t *testing.T) *testenv.Cluster {
	t.Helper()
	running.Store(true)
	cluster, err := management()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func newHarness(t *testing.T, transport http.RoundTripper, credentials driver.Credentials) *harness {
	t.Helper()
	cluster := managed(t)
	config, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	s := &harness{Gomega: gomega.NewWithT(t), t: t, cluster: cluster}
	namespace, err := cluster.Namespace(t.Context(), "openstack")
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.home, err = cluster.Cluster(t.Context(), namespace, "home")
	s.Expect(err).NotTo(gomega.HaveOccurred())
	if credentials != nil {
		s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Data: credentials})
	}
	providertest.Run(t, config, namespace, openstack.Cloud(openstack.Options{Transport: transport}))
	return s
}

func (s *harness) create(object client.Object) {
	s.t.Helper()
	object.SetNamespace(s.home.Namespace)
	s.Expect(s.cluster.Client.Create(s.t.Context(), object)).To(gomega.Succeed())
}

// machine creates a Machine with its bootstrap data and its OpenStackMachine, as machine-controller does.
func (s *harness) machine(name, zone string, spec infrav1.OpenStackMachineSpec) *infrav1.OpenStackMachine {
	s.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: s.home.Name}
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName: s.home.Name, FailureDomain: zone, Bootstrap: clusterv1.Bootstrap{DataSecretName: &name},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "OpenStackMachine", Name: name},
		},
	}
	s.create(owner)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")}})
	machine := &infrav1.OpenStackMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}},
		Spec:       spec,
	}
	s.create(machine)
	return machine
}

// await waits until a machine is Ready for a reason, and returns the message.
func (s *harness) await(machine *infrav1.OpenStackMachine, reason string, timeout time.Duration) string {
	s.t.Helper()
	message := ""
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(machine), machine)).To(gomega.Succeed())
		ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
		g.Expect(ready).NotTo(gomega.BeNil())
		g.Expect(ready.Reason).To(gomega.Equal(reason), ready.Message)
		message = ready.Message
	}, timeout).Should(gomega.Succeed())
	return message
}

// remove deletes a machine and waits until it does not exist.
func (s *harness) remove(machine *infrav1.OpenStackMachine, timeout time.Duration) {
	s.t.Helper()
	s.Expect(s.cluster.Client.Delete(s.t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(machine), machine))
	}, timeout).Should(gomega.BeTrue())
}

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := newHarness(t, r.faults, r.secret)
	spec := fullSpec()
	spec.CredentialsSecretName, spec.RootVolume = "cloud", infrav1.OpenStackVolume{SizeGiB: 20}
	machine := s.machine("worker-1", "zone-b", spec)
	s.await(machine, machinestatus.InstanceRunningReason, 4*time.Minute)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("openstack://RegionOne/%s", r.only(t, "servers")["id"])))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("zone-b"))
	s.Expect(machine.Status.Addresses).To(gomega.ContainElements(
		gomega.HaveField("Type", clusterv1.MachineInternalIP), gomega.HaveField("Type", clusterv1.MachineExternalIP),
		clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "worker-1"}))
	s.remove(machine, 4*time.Minute)
	s.Expect(r.Leftovers()).To(gomega.BeEmpty())
}

func TestReconcileTemplate(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := newHarness(t, r.faults, r.secret)
	template := &infrav1.OpenStackMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	template.Spec.Template.Spec = minimalSpec()
	template.Spec.Template.Spec.CredentialsSecretName = "cloud"
	s.create(template)
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(gomega.Succeed())
		g.Expect(template.Status.Capacity.Memory().String()).To(gomega.Equal("512Mi"))
		g.Expect(template.Status.NodeInfo).To(gomega.Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
	}, 4*time.Minute).Should(gomega.Succeed())
}

func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	s := newHarness(t, r.faults, r.secret)
	spec := minimalSpec()
	spec.CredentialsSecretName, spec.Flavor = "cloud", "nonsense"
	machine := s.machine("unknown-flavor", "", spec)
	message := s.await(machine, machinestatus.InvalidConfigurationReason, 4*time.Minute)
	s.Expect(message).To(gomega.ContainSubstring("spec.flavor"))
	s.remove(machine, 4*time.Minute)
	s.Expect(r.Leftovers()).To(gomega.BeEmpty())
}

func TestReconcileWithChangedCredentials(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.ChangePassword("another")
	s := newHarness(t, r.faults, r.secret)
	spec := minimalSpec()
	spec.CredentialsSecretName = "cloud"
	machine := s.machine("refused", "", spec)
	s.await(machine, machinestatus.UnauthorizedReason, 4*time.Minute)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home.Namespace, Name: "cloud"}}
	s.Expect(s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(gomega.Succeed())
	secret.Data["OS_PASSWORD"] = []byte("another")
	s.Expect(s.cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	s.remove(machine, 4*time.Minute)
}

// TestRealReconcileMachines creates several machines with real services and with credentials of the environment.
func TestRealReconcileMachines(t *testing.T) {
	real(t)
	s := newHarness(t, nil, nil)
	const timeout = 2 * realTimeout
	began := time.Now()
	spec := realSpec()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	if pool := os.Getenv("OPENSTACK_EXTERNAL_NETWORK"); pool != "" {
		spec.FloatingIP.Network = pool
	}
	var machines []*infrav1.OpenStackMachine
	for n := range 5 {
		machines = append(machines, s.machine(fmt.Sprintf("%s-%d", s.home.Namespace, n), "", spec))
	}
	ids := map[string]bool{}
	for _, machine := range machines {
		s.await(machine, machinestatus.InstanceRunningReason, timeout)
		s.Expect(regexp.MustCompile(`^openstack:///[0-9a-f-]{36}$`).MatchString(machine.Spec.ProviderID)).To(gomega.BeTrue(), machine.Spec.ProviderID)
		s.Expect(machine.Status.Addresses).To(gomega.ContainElement(gomega.HaveField("Type", clusterv1.MachineInternalIP)))
		if spec.FloatingIP.Network != "" {
			s.Expect(machine.Status.Addresses).To(gomega.ContainElement(gomega.HaveField("Type", clusterv1.MachineExternalIP)))
		}
		ids[machine.Spec.ProviderID] = true
	}
	s.Expect(ids).To(gomega.HaveLen(5))
	t.Logf("5 machines ran after %s", time.Since(began).Round(time.Second))
	s.remove(machines[0], timeout)
	machines[0] = s.machine(s.home.Namespace+"-5", "", spec)
	s.await(machines[0], machinestatus.InstanceRunningReason, timeout)
	t.Logf("one was replaced after %s", time.Since(began).Round(time.Second))
	suffix := string(s.home.UID)
	s.Expect(slices.DeleteFunc(leftovers(t, suffix), func(thing string) bool {
		return !strings.HasPrefix(thing, "server ") || strings.HasPrefix(thing, "server group ")
	})).To(gomega.HaveLen(5), "one server of the Cluster per machine")
	for _, machine := range machines {
		s.remove(machine, timeout)
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
