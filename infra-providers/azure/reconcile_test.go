// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

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
	"drover.io/infra-providers/azure/azurefake"
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
	return cluster.As(context.Background(), "drover-infra-azure", "../config/rbac/azure/role.yaml")
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

// group is where the virtual machines of the fake are.
const group = "azure:///subscriptions/" + azurefake.Subscription + "/resourceGroups/" + azurefake.ResourceGroup + "/providers/Microsoft.Compute/virtualMachines/"

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{ListDelay: 2, CreateReads: 1, DeleteReads: 1, NetworkReads: 1, NetworkDeleteReads: 1, KeepsAttached: true})
	s := serve(t, arm)
	s.create(secretIn(s.home.Namespace, account.SecretName))
	machine, _ := s.machine("worker-1", newSpec(func(s *infrav1.AzureMachineSpec) {
		s.CredentialsSecretName, s.SubscriptionID = account.SecretName, "" // it is the Secret's
		everything(s)
	}), "3")

	s.Eventually(func(g gomega.Gomega) {
		s.fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}).Should(gomega.Succeed())
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

	s.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
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
	s.create(secretIn(s.home.Namespace, account.SecretName))
	machine, _ := s.machine("worker-2", newSpec(func(s *infrav1.AzureMachineSpec) {
		everything(s)
		s.CredentialsSecretName = account.SecretName
		s.Fallbacks = []infrav1.AzureFallback{{VMSize: "Standard_D4s_v5", Zone: "2", Priority: "Spot"}}
	}), "")
	s.Eventually(func(g gomega.Gomega) {
		s.fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}).Should(gomega.Succeed())
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("2"))
	s.Expect(arm.cloud.Requests()).To(gomega.HaveLen(2))

	s.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
	s.Expect(arm.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	s := serve(t, arm)
	s.create(secretIn(s.home.Namespace, account.SecretName))
	wrong := secretIn(s.home.Namespace, "wrong")
	wrong.Data["clientSecret"] = []byte("guessed")
	s.create(wrong)
	escaping := secretIn(s.home.Namespace, "escaping")
	escaping.Data["tenantID"] = []byte("../../evil.example.org")
	s.create(escaping)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home.Namespace, Name: "empty"}})
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
		"wrong-password":  {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "wrong" }, machinestatus.UnauthorizedReason, "invalid_client AADSTS7000215"},
		"escaping-tenant": {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "escaping" }, machinestatus.UnauthorizedReason, "is no tenant"},
		"no-secret":       {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "missing" }, machinestatus.UnauthorizedReason, `"missing" not found`},
		"empty-secret":    {func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "empty" }, machinestatus.UnauthorizedReason, "lacks one of the keys"},
		"wrong-group":     {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "gone" }, machinestatus.UnauthorizedReason, "ResourceGroupNotFound"},
		"wrong-size":      {func(s *infrav1.AzureMachineSpec) { s.VMSize = "Standard_X2" }, machinestatus.InvalidConfigurationReason, "spec.vmSize"},
		"wrong-image":     {func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.SKU = "gone" }, machinestatus.InvalidConfigurationReason, "spec.image: Azure: NotFound"},
		"wrong-subnet":    {func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.SubnetID += "x" }, machinestatus.InvalidConfigurationReason, "spec.networkInterface"},
		"odd-provider-id": {func(s *infrav1.AzureMachineSpec) { s.ProviderID = "azure:///subscriptions/other" }, machinestatus.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			g.SetDefaultEventuallyTimeout(waitTimeout)
			machine, _ := s.machine(name, newSpec(func(s *infrav1.AzureMachineSpec) {
				s.CredentialsSecretName = account.SecretName
				test.change(s)
			}), "")
			g.Eventually(func(g gomega.Gomega) {
				s.fetch(g, machine)
				g.Expect(reason(machine)).To(gomega.Equal(test.want), "%+v", machine.Status.Conditions)
				g.Expect(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition).Message).To(gomega.ContainSubstring(test.message))
			}).Should(gomega.Succeed())
			if test.want == machinestatus.UnauthorizedReason && name != "wrong-group" {
				// Without valid credentials the absence of the instance is unknown, so they come first.
				s.mend(machine.Spec.CredentialsSecretName)
			}
			g.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
			g.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
		})
	}
}

// harness is a provider that runs against a fake Azure, with a namespace and a Cluster of its own.
type harness struct {
	*gomega.WithT
	t       *testing.T
	cluster *testenv.Cluster
	home    *clusterv1.Cluster
}

func serve(t *testing.T, arm env) harness {
	t.Helper()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	cluster, err := started()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	namespace, err := cluster.Namespace(t.Context(), "azure")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	config, err := providerConfig()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	providertest.Run(t, config, namespace, arm.description())
	return harness{WithT: g, t: t, cluster: cluster, home: home}
}

func (s harness) create(object client.Object) {
	s.t.Helper()
	s.Expect(s.cluster.Client.Create(context.Background(), object)).To(gomega.Succeed())
}

// machine creates a Machine with its bootstrap Secret and, owned by it, its AzureMachine.
func (s harness) machine(name string, spec infrav1.AzureMachineSpec, zone string) (*infrav1.AzureMachine, *clusterv1.Machine) {
	s.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: s.home.Name}
	common := metav1.ObjectMeta{Namespace: s.home.Namespace, Name: name, Labels: labels}
	owner := &clusterv1.Machine{ObjectMeta: common, Spec: clusterv1.MachineSpec{
		ClusterName:       s.home.Name,
		FailureDomain:     zone,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: &name},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AzureMachine", Name: name},
	}}
	s.create(owner)
	s.create(&corev1.Secret{ObjectMeta: common, Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")}})
	machine := &infrav1.AzureMachine{ObjectMeta: common, Spec: spec}
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
	s.create(machine)
	return machine, owner
}

// mend puts valid credentials into a Secret, whether it exists or not.
func (s harness) mend(name string) {
	s.t.Helper()
	secret := secretIn(s.home.Namespace, name)
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

func secretIn(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: azurefake.Secret()}
}

func credentialsSecret() *corev1.Secret { return secretIn("", account.SecretName) }

func reason(machine *infrav1.AzureMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return fmt.Sprintf("no condition %s", clusterv1.ReadyCondition)
}
