// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/sim"
	"drover.io/infra-providers/sim/hypervisor"
	"drover.io/runtime/envtest"
	"drover.io/runtime/manager"
)

// cluster is management and workload cluster in one.
var cluster *testenv.Cluster

// waitTimeout bounds every wait: how quick anything is depends on what else the host does.
const waitTimeout = 4 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return cluster.AdmitHosts(context.Background())
	}))
}

// TestLifecycleOfASimulatedMachine follows one machine through its whole life: the manager acts
// under the role that is shipped, the host joins by its bootstrap data alone, a restarted provider finds
// its hosts again, and nothing is left at the end.
func TestLifecycleOfASimulatedMachine(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	ctx := t.Context()
	g.SetDefaultEventuallyTimeout(waitTimeout)
	state := t.TempDir()
	config, err := cluster.As(ctx, "drover-infra-sim", "../../config/rbac/sim/role.yaml")
	g.Expect(err).NotTo(gomega.HaveOccurred())

	home := given(t)
	stop := serve(t, home, state, config)
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: infrav1.SimMachineSpec{InstanceType: "medium", Zone: "zone-b"}}
	owner, err := cluster.Machine(ctx, home, machine, userData(t, testenv.Token, cluster.CA()))
	g.Expect(err).NotTo(gomega.HaveOccurred())

	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine, infrav1.HostJoinedCondition)).To(gomega.Equal(infrav1.JoinedReason))
	}).Should(gomega.Succeed())
	g.Expect(machine.Spec.ProviderID).To(gomega.Equal("sim:///zone-b/sim-" + string(machine.UID)))
	g.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(gomega.BeTrue())
	g.Expect(machine.Status.FailureDomain).To(gomega.Equal("zone-b"))
	g.Expect(reason(machine, clusterv1.ReadyCondition)).To(gomega.Equal(infrav1.InstanceRunningReason))
	g.Expect(reason(machine, clusterv1.PausedCondition)).To(gomega.Equal(clusterv1.NotPausedReason))

	g.Eventually(func(g gomega.Gomega) {
		eventList := &eventsv1.EventList{}
		g.Expect(cluster.Client.List(ctx, eventList, client.InNamespace(home.Namespace))).To(gomega.Succeed())
		g.Expect(eventList.Items).To(gomega.ContainElement(gomega.And(
			gomega.HaveField("Reason", "InstanceCreated"), gomega.HaveField("Regarding.Name", "worker-1"))))
	}).Should(gomega.Succeed())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	fetch(g, node)
	g.Expect(node.Spec.ProviderID).To(gomega.Equal(machine.Spec.ProviderID))
	g.Expect(node.Labels).To(gomega.HaveKeyWithValue("tier", "web"))
	g.Expect(node.Spec.Taints).To(gomega.ContainElement(gomega.HaveField("Key", "node.cluster.x-k8s.io/uninitialized")))
	g.Expect(node.Status.Capacity.Pods().Value()).To(gomega.BeEquivalentTo(42))
	g.Expect(node.Status.Capacity.Cpu().Value()).To(gomega.BeEquivalentTo(4))
	g.Expect(node.Status.NodeInfo.KubeletVersion).To(gomega.Equal("v1.36.2"))

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: "web"},
		Spec: corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "web", Image: "web"}},
			AutomountServiceAccountToken: ptr.To(false), ServiceAccountName: "default"},
	}
	g.Expect(cluster.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: "default"}})).To(gomega.Succeed())
	g.Expect(cluster.Client.Create(ctx, pod)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, pod)
		g.Expect(pod.Status.Phase).To(gomega.Equal(corev1.PodRunning))
		g.Expect(pod.Status.PodIP).NotTo(gomega.BeEmpty())
	}).Should(gomega.Succeed())

	// The provider is killed and started again: the host comes back with its certificate.
	stop()
	serve(t, home, state, config)
	g.Expect(cluster.Client.Delete(ctx, pod)).To(gomega.Succeed())
	g.Eventually(func() bool { return gone(pod) }).Should(gomega.BeTrue())

	remediation := unwell(g, owner)
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, remediation)
		g.Expect(remediation.Status.Phase).To(gomega.Equal(infrav1.RestartRemediationWaiting))
	}).Should(gomega.Succeed())

	g.Expect(cluster.Client.Delete(ctx, machine)).To(gomega.Succeed())
	g.Eventually(func() bool { return gone(machine) }).Should(gomega.BeTrue())
	g.Expect(cluster.Client.Delete(ctx, owner)).To(gomega.Succeed())
	left, err := os.ReadDir(state)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(left).To(gomega.HaveLen(1), "only the lock is left in the state directory")
}

// serve runs a provider until the test or the returned function ends it.
// It sees one namespace only, because every test has a simulated cloud of its own.
func serve(t *testing.T, home *clusterv1.Cluster, state string, config *rest.Config) (stop func()) {
	t.Helper()
	hosts, err := hypervisor.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := provider.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{home.Namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
		// A restarted provider registers the same controllers in this process again.
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Register(mgr, sim.Cloud(hosts), &provider.Options{Options: manager.Options{WorkerCount: 4, SyncPeriod: time.Minute}, InventoryInterval: time.Minute}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func given(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "story")
	if err != nil {
		t.Fatal(err)
	}
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// userData is what a bootstrap provider would write, with a token and a CA of the test's choice.
func userData(t *testing.T, token string, ca []byte) []byte {
	t.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: envtest.URL(cluster.Config), CertificateAuthorityData: ca}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "x"
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile("testdata/user-data.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(string(template), "KUBECONFIG", base64.StdEncoding.EncodeToString(content), 1))
}

// unwell does what a MachineHealthCheck does for an unhealthy Machine that is to be restarted.
func unwell(g gomega.Gomega, machine *clusterv1.Machine) *infrav1.RestartRemediation {
	ctx := context.Background()
	fetch(g, machine)
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
	})
	g.Expect(cluster.Client.Status().Update(ctx, machine)).To(gomega.Succeed())
	remediation := &infrav1.RestartRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: machine.Namespace, Name: machine.Name, Labels: machine.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}},
	}}
	g.Expect(cluster.Client.Create(ctx, remediation)).To(gomega.Succeed())
	return remediation
}

func fetch(g gomega.Gomega, object client.Object) {
	g.Expect(cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
}

func gone(object client.Object) bool {
	return apierrors.IsNotFound(cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object))
}

func reason(machine *infrav1.SimMachine, kind string) string {
	if condition := meta.FindStatusCondition(machine.Status.Conditions, kind); condition != nil {
		return condition.Reason
	}
	return ""
}
