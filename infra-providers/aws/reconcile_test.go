// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

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
	"drover.io/infra-providers/aws/awsfake"
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
	return cluster.As(context.Background(), "drover-infra-aws", "../config/rbac/aws/role.yaml")
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
	ec2 := newEnv(t, awsfake.Options{ListDelay: 2, PendingReads: 1, StoppingReads: 1, TerminatedReads: 5})
	s := serve(t, ec2)
	s.create(credentialsSecret(s.home.Namespace, awsfake.AccessKey))
	machine, _ := s.machine("worker-1", newSpec(func(s *infrav1.AWSMachineSpec) {
		s.CredentialsSecretName = "aws"
		s.Subnet = selector("tag:role", "nodes")
		s.PublicIP = ptr.To(true)
		s.IPv6AddressCount = ptr.To[int32](1)
	}), awsfake.Region+"b")

	s.Eventually(func(g gomega.Gomega) {
		s.fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}).Should(gomega.Succeed())
	id := listInstanceIDs(t, ec2.connect(t))[0]
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal("aws:///eu-central-1b/" + id))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("eu-central-1b"))
	s.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	kinds := []clusterv1.MachineAddressType{}
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	want := []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS,
		clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS, clusterv1.MachineInternalIP}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}

	s.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	s.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
	s.Expect(ec2.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(ec2.cloud.Counts()["RunInstances"]).To(gomega.Equal(1))
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 5})
	s := serve(t, ec2)
	s.create(credentialsSecret(s.home.Namespace, awsfake.AccessKey))
	unknown := credentialsSecret(s.home.Namespace, "AKIAUNKNOWN")
	unknown.Name = "unknown"
	s.create(unknown)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home.Namespace, Name: "empty"}})
	t.Cleanup(func() {
		if left := ec2.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
	for name, test := range map[string]struct {
		change  func(*infrav1.AWSMachineSpec)
		want    string
		message string
	}{
		"wrong-key":       {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "unknown" }, machinestatus.UnauthorizedReason, "AuthFailure"},
		"no-secret":       {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "missing" }, machinestatus.UnauthorizedReason, `"missing" not found`},
		"empty-secret":    {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "empty" }, machinestatus.UnauthorizedReason, "AWS_ACCESS_KEY_ID"},
		"wrong-type":      {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m9x.huge" }, machinestatus.InvalidConfigurationReason, "m9x.huge"},
		"wrong-image":     {func(s *infrav1.AWSMachineSpec) { s.Image.ID = "ami-0000000000000dead" }, machinestatus.InvalidConfigurationReason, "spec.image: InvalidAMIID.NotFound"},
		"wrong-subnet":    {func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = "subnet-0000dead" }, machinestatus.InvalidConfigurationReason, "spec.subnet"},
		"no-room":         {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.48xlarge" }, machinestatus.InsufficientCapacityReason, "m7i.48xlarge"},
		"odd-provider-id": {func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/not-an-instance" }, machinestatus.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			g.SetDefaultEventuallyTimeout(waitTimeout)
			machine, _ := s.machine(name, newSpec(func(s *infrav1.AWSMachineSpec) {
				s.CredentialsSecretName = "aws"
				test.change(s)
			}), "")
			g.Eventually(func(g gomega.Gomega) {
				s.fetch(g, machine)
				g.Expect(reason(machine)).To(gomega.Equal(test.want), "%+v", machine.Status.Conditions)
				g.Expect(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition).Message).To(gomega.ContainSubstring(test.message))
			}).Should(gomega.Succeed())
			if test.want == machinestatus.UnauthorizedReason {
				// Without valid credentials the absence of the instance is unknown, so they come first.
				s.mend(machine.Spec.CredentialsSecretName)
			}
			g.Expect(s.cluster.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
			g.Eventually(func() bool { return s.gone(machine) }).Should(gomega.BeTrue())
		})
	}
}

// harness is a provider that runs against a fake EC2, with a namespace and a Cluster of its own.
type harness struct {
	*gomega.WithT
	t       *testing.T
	cluster *testenv.Cluster
	home    *clusterv1.Cluster
}

func serve(t *testing.T, ec2 env) harness {
	t.Helper()
	ec2.speed = 100 // the windows of the driver are minutes
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	cluster, err := started()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	namespace, err := cluster.Namespace(t.Context(), "aws")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	config, err := providerConfig()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	providertest.Run(t, config, namespace, ec2.description())
	return harness{WithT: g, t: t, cluster: cluster, home: home}
}

func (s harness) create(object client.Object) {
	s.t.Helper()
	s.Expect(s.cluster.Client.Create(context.Background(), object)).To(gomega.Succeed())
}

// machine creates a Machine with its bootstrap Secret and, owned by it, its AWSMachine.
func (s harness) machine(name string, spec infrav1.AWSMachineSpec, zone string) (*infrav1.AWSMachine, *clusterv1.Machine) {
	s.t.Helper()
	machine := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	owner, err := s.cluster.Machine(context.Background(), s.home, machine, []byte("#cloud-config\n"), func(owner *clusterv1.Machine) {
		owner.Spec.FailureDomain = zone
	})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return machine, owner
}

// mend puts valid credentials into a Secret, whether it exists or not.
func (s harness) mend(name string) {
	s.t.Helper()
	secret := credentialsSecret(s.home.Namespace, awsfake.AccessKey)
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

func credentialsSecret(namespace, key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws"}, Data: secret(key)}
}

func reason(machine *infrav1.AWSMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return fmt.Sprintf("no condition %s", clusterv1.ReadyCondition)
}
