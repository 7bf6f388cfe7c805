// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

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
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var shared = testenv.NewShared("aws", "../config/rbac/aws/role.yaml")

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestReconcileMachine creates and deletes a machine through the generic reconciler, with the provider's role and
// credentials of a Secret.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{ListDelay: 2, PendingReads: 1, StoppingReads: 1, TerminatedReads: 5})
	s := serve(t, ec2)
	s.Create(credentialsSecret(awsfake.AccessKey))
	machine := newMachine("worker-1", newSpec(func(s *infrav1.AWSMachineSpec) {
		s.CredentialsSecretName = "aws"
		s.Subnet = selector("tag:role", "nodes")
		s.PublicIP = ptr.To(true)
		s.IPv6AddressCount = ptr.To[int32](1)
	}))
	s.CreateMachine(machine, awsfake.Region+"b")

	s.WaitForReason(machine, infrav1.InstanceRunningReason)
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

	s.Delete(machine)
	s.Expect(ec2.cloud.Leftovers()).To(gomega.BeEmpty())
	s.Expect(ec2.cloud.Counts()["RunInstances"]).To(gomega.Equal(1))
}

// TestFallbackToASubnetByFilters is created in another zone, although neither the spec nor the Machine names zones.
func TestFallbackToASubnetByFilters(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 5})
	s := serve(t, ec2)
	s.Create(credentialsSecret(awsfake.AccessKey))
	ec2.cloud.FailNext(awsfake.Fault{Status: 500, Code: "InsufficientInstanceCapacity", Message: "We currently do not have sufficient capacity."})
	machine := newMachine("worker-1", newSpec(func(s *infrav1.AWSMachineSpec) {
		s.CredentialsSecretName = "aws"
		s.Subnet = selector("availability-zone", awsfake.Region+"a")
		s.Fallbacks = []infrav1.AWSFallback{{Subnet: selector("availability-zone", awsfake.Region+"b")}}
	}))
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal(awsfake.Region + "b"))
	s.Delete(machine)
	s.Expect(ec2.cloud.Leftovers()).To(gomega.BeEmpty())
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 5})
	s := serve(t, ec2)
	s.Create(credentialsSecret(awsfake.AccessKey))
	unknown := credentialsSecret("AKIAUNKNOWN")
	unknown.Name = "unknown"
	s.Create(unknown)
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
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
		"wrong-key":       {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "unknown" }, infrav1.UnauthorizedReason, "AuthFailure"},
		"no-secret":       {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"empty-secret":    {func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "empty" }, infrav1.UnauthorizedReason, "AWS_ACCESS_KEY_ID"},
		"wrong-type":      {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m9x.huge" }, infrav1.InvalidConfigurationReason, "m9x.huge"},
		"wrong-image":     {func(s *infrav1.AWSMachineSpec) { s.Image.ID = "ami-0000000000000dead" }, infrav1.InvalidConfigurationReason, "spec.image: InvalidAMIID.NotFound"},
		"wrong-subnet":    {func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = "subnet-0000dead" }, infrav1.InvalidConfigurationReason, "spec.subnet"},
		"no-room":         {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.48xlarge" }, infrav1.InsufficientCapacityReason, "m7i.48xlarge"},
		"odd-provider-id": {func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/not-an-instance" }, infrav1.InstanceMissingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			machine := newMachine(name, newSpec(func(s *infrav1.AWSMachineSpec) {
				s.CredentialsSecretName = "aws"
				test.change(s)
			}))
			s.ExpectRefusal(machine, test.want, test.message, credentialsSecret(awsfake.AccessKey), machine.Spec.CredentialsSecretName)
		})
	}
}

// serve runs the provider against a fake EC2, with a namespace and a Cluster of its own.
func serve(t *testing.T, ec2 env) *testenv.Harness {
	t.Helper()
	ec2.clock.Run(100) // the windows of the driver are minutes
	return providertest.Serve(t, shared, ec2.description())
}

func newMachine(name string, spec infrav1.AWSMachineSpec) *infrav1.AWSMachine {
	return &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func credentialsSecret(key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws"}, Data: secret(key)}
}
