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
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
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

// TestReconcile runs the provider with its role, with tokens of Secrets, slow actions and late lists.
func TestReconcile(t *testing.T) {
	cloud, err := digitaloceanfake.Start(digitaloceanfake.Options{ActionDelay: 2, TagDelay: 1, ListDelay: 4, Limited: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	t.Setenv("DIGITALOCEAN_API_URL", cloud.Endpoint)
	t.Setenv("DIGITALOCEAN_TOKEN", "")
	home := newHome(t, "good", digitaloceanfake.Token)
	config, err := cluster.As(t.Context(), "drover-infra-digitalocean", "../../config/rbac/digitalocean/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	providertest.Run(t, config, home.Namespace, digitalocean.Cloud())
	t.Run("creates and deletes a Droplet", func(t *testing.T) { reconcileMachine(t, home, cloud) })
	t.Run("recovers from an invalid token without a restart", func(t *testing.T) { reconcileInvalidToken(t, home) })
	t.Run("deletes a machine with an invalid size", func(t *testing.T) { reconcileInvalidSize(t, home) })
	t.Run("takes a fallback", func(t *testing.T) { reconcileFallback(t, home, cloud) })
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

func wantReason(g gomega.Gomega, machine *infrav1.DigitalOceanMachine, want string) {
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine)).To(gomega.Equal(want))
	}, waitTimeout).Should(gomega.Succeed())
}

func reconcileMachine(t *testing.T, home *clusterv1.Cluster, cloud *digitaloceanfake.Cloud) {
	g := gomega.NewWithT(t)
	machine := &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: infrav1.DigitalOceanMachineSpec{
		CredentialsSecretName: "good", Size: "s-2vcpu-4gb", Region: "nyc3", ImageName: "node", ReservedIP: ptr.To(true), IPv6: ptr.To(true),
		Volumes: []infrav1.DigitalOceanVolume{{Name: "data", SizeGiB: 10}},
	}}
	owner := own(t, home, machine)
	wantReason(g, machine, machinestatus.InstanceRunningReason)
	created := cloud.Droplets()[0]
	g.Expect(machine.Spec.ProviderID).To(gomega.Equal(fmt.Sprintf("digitalocean://%d", created.ID)))
	g.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	g.Expect(machine.Status.FailureDomain).To(gomega.Equal("nyc3"))
	g.Expect(machine.Status.Account).To(gomega.Equal("digitalocean/" + digitaloceanfake.Team))
	var kinds []clusterv1.MachineAddressType
	for _, address := range machine.Status.Addresses {
		kinds = append(kinds, address.Type)
	}
	g.Expect(kinds).To(gomega.Equal([]clusterv1.MachineAddressType{
		clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineExternalIP,
	}))
	g.Expect(created.Request["user_data"]).To(gomega.Equal("#cloud-config\n"))
	g.Expect(created.ReservedIPs).To(gomega.HaveLen(1))
	g.Expect(created.Volumes).To(gomega.HaveLen(1))
	mustDelete(t, machine, owner)
}

func reconcileInvalidToken(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	secret := credentials(t, home.Namespace, "rotated", "wrong")
	machine := newWorker("worker-2", "rotated", "s-2vcpu-4gb")
	owner := own(t, home, machine)
	wantReason(g, machine, machinestatus.UnauthorizedReason)
	secret.Data["token"] = []byte(digitaloceanfake.Token)
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	// Secrets are not watched: the next reconcile of the machine uses the new token, at the latest after a minute.
	wantReason(g, machine, machinestatus.InstanceRunningReason)
	mustDelete(t, machine, owner)
}

func newWorker(name, secret, size string) *infrav1.DigitalOceanMachine {
	return &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.DigitalOceanMachineSpec{
		CredentialsSecretName: secret, Size: size, Region: "nyc3", Image: "ubuntu-24-04-x64",
	}}
}

func reconcileInvalidSize(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	machine := newWorker("worker-3", "good", "huge")
	owner := own(t, home, machine)
	wantReason(g, machine, machinestatus.InvalidConfigurationReason)
	g.Expect(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition).Message).To(gomega.ContainSubstring("spec.size"))
	mustDelete(t, machine, owner)
}

func reconcileFallback(t *testing.T, home *clusterv1.Cluster, cloud *digitaloceanfake.Cloud) {
	g := gomega.NewWithT(t)
	machine := newWorker("worker-4", "good", "s-2vcpu-4gb")
	machine.Spec.Fallbacks = []infrav1.DigitalOceanFallback{{Region: "fra1"}}
	cloud.SellOut()
	owner := own(t, home, machine)
	wantReason(g, machine, machinestatus.InstanceRunningReason)
	g.Expect(machine.Status.FailureDomain).To(gomega.Equal("fra1"))
	mustDelete(t, machine, owner)
}

func reconcileTemplate(t *testing.T, home *clusterv1.Cluster) {
	g := gomega.NewWithT(t)
	created := &infrav1.DigitalOceanMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: "large"}}
	created.Spec.Template.Spec = newWorker("", "good", "s-4vcpu-8gb").Spec
	g.Expect(cluster.Client.Create(t.Context(), created)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, created)
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
	namespace, err := cluster.Namespace(t.Context(), "digitalocean")
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
func own(t *testing.T, home *clusterv1.Cluster, infra *infrav1.DigitalOceanMachine) *clusterv1.Machine {
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

func reason(machine *infrav1.DigitalOceanMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return ""
}
