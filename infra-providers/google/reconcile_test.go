// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

// started is the API server that the tests of this package share, started by the first that needs it.
var (
	needed  atomic.Bool
	started = sync.OnceValues(func() (*testenv.Cluster, error) {
		needed.Store(true)
		return testenv.Start()
	})
)

// providerConfig is a client configuration with the provider's role.
var providerConfig = sync.OnceValues(func() (*rest.Config, error) {
	cluster, err := started()
	if err != nil {
		return nil, err
	}
	return cluster.As(context.Background(), "drover-infra-google", "../config/rbac/google/role.yaml")
})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if needed.Load() {
		if cluster, err := started(); err == nil {
			_ = cluster.Stop()
		}
	}
	os.Exit(code)
}

// waitTimeout bounds every wait. It is long, because the load of the host varies.
const waitTimeout = 4 * time.Minute

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{ListDelay: 2, OperationReads: 1, StoppingReads: 1})
	s := serve(t, gce)
	s.create(gce.credentialsSecret(s.home.Namespace))
	machine, _ := s.machine("worker-1", newSpec(func(s *infrav1.GoogleMachineSpec) {
		s.CredentialsSecretName = "google"
		withDisk(s)
		s.NetworkInterfaces[0].ExternalIP, s.NetworkInterfaces[0].StackType = ptr.To(true), "IPV4_IPV6"
	}), googlefake.ZoneB)

	s.Eventually(func(g gomega.Gomega) {
		s.fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}).Should(gomega.Succeed())
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

	s.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
	s.Expect(gce.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(gce.cloud.Counts()["instances.insert"]).To(gomega.Equal(1))
}

// TestReconcileFallback has a type without capacity, and a fallback in the other zone.
func TestReconcileFallback(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	s := serve(t, gce)
	s.create(gce.credentialsSecret(s.home.Namespace))
	machine, _ := s.machine("worker-2", newSpec(func(s *infrav1.GoogleMachineSpec) {
		s.CredentialsSecretName, s.MachineType = "google", googlefake.NoCapacity
		s.Fallbacks = []infrav1.GoogleFallback{{MachineType: "n4-standard-4", Zone: googlefake.ZoneB, ProvisioningModel: "SPOT"}}
	}), "")
	s.Eventually(func(g gomega.Gomega) {
		s.fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}).Should(gomega.Succeed())
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal("gce://drover-test/europe-west3-b/worker-2"))

	s.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
	s.Expect(gce.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	s := serve(t, gce)
	s.create(gce.credentialsSecret(s.home.Namespace))
	elsewhere := gce.credentialsSecret(s.home.Namespace)
	elsewhere.Name = "elsewhere"
	elsewhere.Data = map[string][]byte{"serviceaccount.json": []byte(`{"type":"external_account","token_url":"https://169.254.169.254/"}`)}
	s.create(elsewhere)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home.Namespace, Name: "empty"}})
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
		"other-credentials": {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "elsewhere" }, machinestatus.UnauthorizedReason, "service_account"},
		"no-secret":         {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "missing" }, machinestatus.UnauthorizedReason, `"missing" not found`},
		"empty-secret":      {func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "empty" }, machinestatus.UnauthorizedReason, "serviceaccount.json"},
		"wrong-type":        {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "n9-huge-2" }, machinestatus.InvalidConfigurationReason, "n9-huge-2"},
		"wrong-image":       {func(s *infrav1.GoogleMachineSpec) { s.Image.Family = "gone" }, machinestatus.InvalidConfigurationReason, "spec.image: notFound"},
		"wrong-subnetwork":  {func(s *infrav1.GoogleMachineSpec) { s.NetworkInterfaces[0].Subnetwork = "gone" }, machinestatus.InvalidConfigurationReason, "subnetworks/gone"},
		"no-room":           {func(s *infrav1.GoogleMachineSpec) { s.MachineType = googlefake.NoCapacity }, machinestatus.InsufficientCapacityReason, googlefake.NoCapacity},
		"odd-provider-id":   {func(s *infrav1.GoogleMachineSpec) { s.ProviderID = "gce://other-project/a/b" }, machinestatus.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			g.SetDefaultEventuallyTimeout(waitTimeout)
			machine, _ := s.machine(name, newSpec(func(s *infrav1.GoogleMachineSpec) {
				s.CredentialsSecretName = "google"
				test.change(s)
			}), "")
			g.Eventually(func(g gomega.Gomega) {
				s.fetch(g, machine)
				g.Expect(reason(machine)).To(gomega.Equal(test.want), "%+v", machine.Status.Conditions)
				g.Expect(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition).Message).To(gomega.ContainSubstring(test.message))
			}).Should(gomega.Succeed())
			if test.want == machinestatus.UnauthorizedReason {
				// Without valid credentials the absence of the instance is unknown, so they come first.
				s.mend(gce, machine.Spec.CredentialsSecretName)
			}
			g.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
			g.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
		})
	}
}

// harness is a provider that runs against a fake Compute Engine, with a namespace and a Cluster of its own.
type harness struct {
	*gomega.WithT
	t       *testing.T
	cluster *testenv.Cluster
	home    *clusterv1.Cluster
}

func serve(t *testing.T, gce env) harness {
	t.Helper()
	gce.speed = 100 // the windows of the driver are minutes
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	cluster, err := started()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	namespace, err := cluster.Namespace(t.Context(), "google")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	config, err := providerConfig()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	providertest.Run(t, config, namespace, gce.description())
	return harness{WithT: g, t: t, cluster: cluster, home: home}
}

func (s harness) create(object client.Object) {
	s.t.Helper()
	s.Expect(s.cluster.Client.Create(context.Background(), object)).To(gomega.Succeed())
}

// machine creates a Machine with its bootstrap Secret and, owned by it, its GoogleMachine.
func (s harness) machine(name string, spec infrav1.GoogleMachineSpec, zone string) (*infrav1.GoogleMachine, *clusterv1.Machine) {
	s.t.Helper()
	machine := &infrav1.GoogleMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	owner, err := s.cluster.Machine(context.Background(), s.home, machine, []byte("#cloud-config\n"), func(owner *clusterv1.Machine) {
		owner.Spec.FailureDomain = zone
	})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return machine, owner
}

// mend puts valid credentials into a Secret, whether it exists or not.
func (s harness) mend(gce env, name string) {
	s.t.Helper()
	secret := gce.credentialsSecret(s.home.Namespace)
	secret.Name = name
	err := s.cluster.Client.Create(context.Background(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.cluster.Client.Update(context.Background(), secret)
	}
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s harness) fetch(g gomega.Gomega, object client.Object) {
	g.Expect(s.cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
}

func (s harness) gone(object client.Object) bool {
	return apierrors.IsNotFound(s.cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object))
}

func (w env) credentialsSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "google"}, Data: w.secret()}
}

func reason(machine *infrav1.GoogleMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return fmt.Sprintf("no condition %s", clusterv1.ReadyCondition)
}
