// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

// TestReconcile runs the provider with its role, with tokens of Secrets and slow actions.
func TestReconcile(t *testing.T) {
	cloud, err := hetznerfake.Start(hetznerfake.Options{ActionDelay: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	t.Setenv("HCLOUD_ENDPOINT", cloud.Endpoint)
	t.Setenv("HCLOUD_TOKEN", "")
	home := newHome(t, "good", hetznerfake.Token)
	config, err := cluster.As(t.Context(), "drover-infra-hetzner", "../../config/rbac/hetzner/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	providertest.Run(t, config, home.Namespace, hetzner.Cloud())
	t.Run("creates and deletes a server", func(t *testing.T) { reconcileMachine(t, home, cloud) })
	t.Run("recovers from an invalid token without a restart", func(t *testing.T) { reconcileInvalidToken(t, home) })
	t.Run("deletes a machine with an invalid server type", func(t *testing.T) { reconcileInvalidType(t, home) })
	t.Run("sets the capacity of a template", func(t *testing.T) { reconcileTemplate(t, home) })
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
	for _, violation := range cloud.Violations() {
		t.Errorf("violation of the description of the API: %s", violation)
	}
}

// waitTimeout bounds every wait. It is long, because the load of the host varies.
const waitTimeout = 4 * time.Minute

func reconcileMachine(t *testing.T, home *clusterv1.Cluster, cloud *hetznerfake.Cloud) {
	g := gomega.NewWithT(t)
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "good", ServerType: "cx33", Location: "nbg1", Image: "ubuntu-24.04", Backups: ptr.To(true),
		Networks: []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24"}},
		Volumes:  []infrav1.HetznerVolume{{Name: "data", SizeGB: 10}},
	}}
	owner := own(t, home, machine)
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}, waitTimeout).Should(gomega.Succeed())
	server := cloud.CreatedServers()[0].Server
	g.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("hcloud://%d", server.ID)))
	g.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	g.Expect(machine.Status.FailureDomain).To(gomega.Equal("nbg1"))
	g.Expect(machine.Status.Addresses).To(gomega.Equal([]clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "worker-1"},
		{Type: clusterv1.MachineInternalIP, Address: "10.0.1.2"},
		{Type: clusterv1.MachineExternalIP, Address: server.PublicNet.IPv4.IP},
		{Type: clusterv1.MachineExternalIP, Address: fmt.Sprintf("2001:db8:%x::1", server.ID)},
	}))
	g.Expect(cloud.CreatedServers()[0].UserData).To(gomega.Equal("#cloud-config\n"))
	mustDelete(t, machine, owner)
}

func reconcileInvalidToken(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	secret := credentials(t, home.Namespace, "rotated", "wrong")
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "rotated", ServerType: "cx33", Image: "ubuntu-24.04",
	}}
	owner := own(t, home, machine)
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.UnauthorizedReason))
	}, waitTimeout).Should(gomega.Succeed())
	secret.Data["token"] = []byte(hetznerfake.Token)
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	// Secrets are not watched: the next reconcile of the machine uses the new token, at the latest after a minute.
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}, waitTimeout).Should(gomega.Succeed())
	mustDelete(t, machine, owner)
}

func reconcileInvalidType(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}, Spec: infrav1.HetznerMachineSpec{
		CredentialsSecretName: "good", ServerType: "huge", Image: "ubuntu-24.04",
	}}
	owner := own(t, home, machine)
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
		g.Expect(ready).NotTo(gomega.BeNil())
		g.Expect(ready.Reason).To(gomega.Equal(machinestatus.InvalidConfigurationReason))
		g.Expect(ready.Message).To(gomega.ContainSubstring("spec.serverType"))
	}, waitTimeout).Should(gomega.Succeed())
	mustDelete(t, machine, owner)
}

func reconcileTemplate(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	created := &infrav1.HetznerMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: "arm"}}
	created.Spec.Template.Spec = infrav1.HetznerMachineSpec{CredentialsSecretName: "good", ServerType: "cax21", Image: "ubuntu-24.04"}
	g.Expect(cluster.Client.Create(t.Context(), created)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, created)
		g.Expect(created.Status.NodeInfo).To(gomega.Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
		g.Expect(created.Status.Capacity.Cpu().String()).To(gomega.Equal("4"))
	}, waitTimeout).Should(gomega.Succeed())
}

func mustDelete(t *testing.T, objects ...client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	for _, object := range objects {
		g.Expect(client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object))).To(gomega.Succeed())
		g.Eventually(func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object))
		}, waitTimeout).Should(gomega.BeTrue())
	}
}

func newHome(t *testing.T, secret, token string) *clusterv1.Cluster {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "hetzner")
	if err != nil {
		t.Fatal(err)
	}
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	credentials(t, namespace, secret, token)
	return home
}

func credentials(t *testing.T, namespace, name, token string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"token": []byte(token)}}
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// own creates a Machine with its bootstrap Secret and, owned by it, its infrastructure machine, all of one
// name, as machine-controller does.
func own(t *testing.T, home *clusterv1.Cluster, infra *infrav1.HetznerMachine) *clusterv1.Machine {
	t.Helper()
	machine, err := cluster.Machine(t.Context(), home, infra, []byte("#cloud-config\n"))
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

func fetch(g gomega.Gomega, object client.Object) {
	g.Expect(cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
}

func reason(machine *infrav1.HetznerMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return ""
}
