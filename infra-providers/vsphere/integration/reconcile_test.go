// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/vmware/govmomi/simulator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

var (
	cluster *testenv.Cluster
	// shipped acts under the role that is shipped.
	shipped *rest.Config
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) (err error) {
		cluster = started
		shipped, err = cluster.As(context.Background(), "drover-infra-vsphere", "../../config/rbac/vsphere/role.yaml")
		return err
	}))
}

// waitTimeout bounds every wait: how quick anything is depends on what else the host does.
const waitTimeout = 4 * time.Minute

// TestReconcile: created, running with addresses, deleted; machines with bad credentials, a bad
// template or a bad network report that and can be deleted too.
func TestReconcile(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	ctx := t.Context()
	center, model := given(t)
	namespace, err := cluster.Namespace(ctx, "vsphere")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	home, err := cluster.Cluster(ctx, namespace, "home")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for name, password := range map[string]string{"good": "secret", "bad": "wrong"} {
		g.Expect(cluster.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			StringData: map[string]string{"server": center, "username": "drover", "password": password},
		})).To(gomega.Succeed())
	}
	serve(t, namespace)

	good := create(t, home, "worker-1", infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "DC0_C0_RP0_VM0"})
	refused := create(t, home, "worker-2", infrav1.VSphereMachineSpec{CredentialsSecretName: "bad", Template: "DC0_C0_RP0_VM0"})
	invalid := create(t, home, "worker-3", infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "nope"})
	astray := create(t, home, "worker-4", infrav1.VSphereMachineSpec{
		CredentialsSecretName: "good", Template: "DC0_C0_RP0_VM0", Networks: []infrav1.VSphereNetwork{{Name: "VM Network"}, {Name: "nope"}},
	})

	running := func(g gomega.Gomega) {
		fetch(g, good)
		g.Expect(reason(good)).To(gomega.Equal(machinestatus.InstanceRunningReason))
	}
	g.Eventually(running).Should(gomega.Succeed())
	g.Expect(good.Spec.ProviderID).To(gomega.Equal("vsphere://" + string(good.UID)))
	g.Expect(ptr.Deref(good.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())

	g.Expect(bios(model, "worker-1")).To(gomega.Equal(string(good.UID)))

	for _, test := range []struct {
		machine    *infrav1.VSphereMachine
		want, says string
	}{
		{refused, machinestatus.UnauthorizedReason, ""},
		{invalid, machinestatus.InvalidConfigurationReason, "spec.template"},
		{astray, machinestatus.InvalidConfigurationReason, "spec.networks[1].name"},
	} {
		g.Eventually(func(g gomega.Gomega) {
			fetch(g, test.machine)
			ready := meta.FindStatusCondition(test.machine.Status.Conditions, clusterv1.ReadyCondition)
			g.Expect(ready).To(gomega.HaveValue(gomega.And(gomega.HaveField("Reason", test.want), gomega.HaveField("Message", gomega.ContainSubstring(test.says)))))
		}, waitTimeout).Should(gomega.Succeed())
	}

	// Bad credentials cannot prove that nothing is left, so the machine waits for good ones.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bad"}}
	fetch(g, secret)
	secret.Data["password"] = []byte("secret")
	g.Expect(cluster.Client.Update(ctx, secret)).To(gomega.Succeed())
	for _, machine := range []*infrav1.VSphereMachine{good, refused, invalid, astray} {
		g.Expect(cluster.Client.Delete(ctx, machine)).To(gomega.Succeed())
	}
	for _, machine := range []*infrav1.VSphereMachine{good, refused, invalid, astray} {
		g.Eventually(func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(machine), machine))
		}, waitTimeout).Should(gomega.BeTrue(), machine.Name)
	}
	for _, left := range model.Map().All("VirtualMachine") {
		g.Expect(left.(*simulator.VirtualMachine).Name).NotTo(gomega.HavePrefix("worker-"))
	}
}

// TestTemplateCapacity: for scaling from zero.
func TestTemplateCapacity(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	ctx := t.Context()
	center, _ := given(t)
	namespace, err := cluster.Namespace(ctx, "vsphere")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(cluster.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "good"},
		StringData: map[string]string{"server": center, "username": "drover", "password": "secret"},
	})).To(gomega.Succeed())
	serve(t, namespace)
	template := &infrav1.VSphereMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "t"}}
	template.Spec.Template.Spec = infrav1.VSphereMachineSpec{CredentialsSecretName: "good", Template: "x", CPUs: 8, MemoryMiB: 16384}
	g.Expect(cluster.Client.Create(ctx, template)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, template)
		g.Expect(template.Status.Capacity.Cpu().String()).To(gomega.Equal("8"))
		g.Expect(template.Status.Capacity.Memory().String()).To(gomega.Equal("16Gi"))
	}, waitTimeout).Should(gomega.Succeed())
}

// given starts a vCenter and returns its URL.
func given(t *testing.T) (string, *simulator.Model) {
	t.Helper()
	model := simulator.VPX()
	model.Autostart, model.Host = false, 0
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Remove)
	model.Service.Listen = &url.URL{User: url.UserPassword("drover", "secret")}
	server := model.Service.NewServer()
	t.Cleanup(server.Close)
	at := *server.URL
	at.User = nil
	return at.String(), model
}

// serve runs the provider over one namespace, under the role that is shipped, until the test ends.
func serve(t *testing.T, namespace string) {
	t.Helper()
	sessions := &vcenter.Pool{}
	t.Cleanup(func() { // after the provider has ended
		if err := sessions.Close(context.Background()); err != nil {
			t.Errorf("logging out: %v", err)
		}
	})
	providertest.Run(t, shipped, namespace, vsphere.Cloud(sessions))
}

// create makes a Machine, its bootstrap Secret and its VSphereMachine, as the core would.
func create(t *testing.T, home *clusterv1.Cluster, name string, spec infrav1.VSphereMachineSpec) *infrav1.VSphereMachine {
	t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: home.Name}
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName:       home.Name,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: &name},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "VSphereMachine", Name: name},
		},
	}
	if err := cluster.Client.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	machine := &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: name, Labels: labels}, Spec: spec}
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: name},
		Data:       map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	}
	for _, object := range []client.Object{secret, machine} {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return machine
}

func fetch(g gomega.Gomega, object client.Object) {
	g.Expect(cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
}

func reason(machine *infrav1.VSphereMachine) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); condition != nil {
		return condition.Reason
	}
	return ""
}

// bios is the BIOS UUID of a virtual machine.
func bios(model *simulator.Model, name string) string {
	for _, candidate := range model.Map().All("VirtualMachine") {
		if known := candidate.(*simulator.VirtualMachine); known.Name == name {
			return known.Config.Uuid
		}
	}
	return ""
}
