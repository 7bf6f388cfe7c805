// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machineset"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/predicates"
)

// eventTimeout is how long the tests wait for a real API server.
const eventTimeout = 4 * time.Minute

// management is the API server that the tests of this package share, which is the workload cluster too.
var management = &envtest.Server{
	Project: true, CRDs: []*apiextensionsv1.CustomResourceDefinition{loose("MendRemediation", "mendremediations"), loose("MendRemediationTemplate", "mendremediationtemplates")},
}

func TestMain(m *testing.M) { envtest.Main(m, management.Stop) }

// loose is the CRD of a kind that takes anything, in the group mend.test.
func loose(kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	lower := plural[:len(plural)-1]
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".mend.test"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "mend.test", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: lower},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
}

// environment is a Cluster "c" in a namespace of its own, with a manager that runs the
// machinehealthcheck and machineset controllers. Whatever other controllers would do, the
// test does.
type environment struct {
	*testing.T
	*gomega.WithT
	client.Client
	namespace string
	workloads *workload.Connections
}

// newEnvironment starts a manager of all objects. Without a kubeconfig the Cluster is never connected.
func newEnvironment(t *testing.T, connected bool) *environment {
	t.Helper()
	return newFilteredEnvironment(t, connected, "")
}

// newFilteredEnvironment starts a manager of those objects that have its label.
func newFilteredEnvironment(t *testing.T, connected bool, watch predicates.WatchFilter) *environment {
	t.Helper()
	config, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	c := management.Client(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "health-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := &environment{T: t, WithT: gomega.NewWithT(t), Client: c, namespace: namespace.Name}
	w.SetDefaultEventuallyTimeout(eventTimeout)
	w.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	if connected {
		kubeconfig, err := envtest.Kubeconfig(config)
		if err != nil {
			t.Fatal(err)
		}
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
			Data:       map[string][]byte{"value": kubeconfig},
		})
	}
	w.cluster()
	w.start(config, c.Scheme(), watch)
	return w
}

func (w *environment) cluster() {
	w.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}
	w.create(cluster)
	for _, kind := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		})
	}
	w.Expect(w.Status().Update(w.T.Context(), cluster)).To(gomega.Succeed())
}

func (w *environment) start(config *rest.Config, s *runtime.Scheme, watch predicates.WatchFilter) {
	w.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewClient:  index.NewClient,
		Scheme:     s,
		Metrics:    server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}, DefaultTransform: contract.Slim},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	w.Expect(index.Register(ctx, mgr.GetFieldIndexer())).To(gomega.Succeed())
	w.workloads = workload.New(workload.Options{Namespace: w.namespace, Registerer: prometheus.NewRegistry()})
	w.Expect(w.workloads.Register(mgr)).To(gomega.Succeed())
	recorder := mgr.GetEventRecorder("test")
	reach := safety.Reachability{}.Probed(true, time.Now(), time.Minute)
	guard := &safety.Guard{
		Reader: mgr.GetClient(), Workload: w.workloads.State, Management: func() safety.Reachability { return reach },
		Default: policy.Default(), Period: time.Minute, Clock: clock.RealClock{},
	}
	checks := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workloads: w.workloads, Guard: guard, Events: recorder, Clock: clock.RealClock{},
	}
	w.Expect(checks.Register(mgr, watch, controller.Options{})).To(gomega.Succeed())
	sets := &machineset.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Guard: guard, Workloads: w.workloads, Events: recorder, Clock: clock.RealClock{},
		Templates: &contract.Templates{Resolver: &contract.Resolver{Reader: mgr.GetClient()}, Live: mgr.GetAPIReader()},
	}
	w.Expect(sets.Register(mgr, watch, controller.Options{})).To(gomega.Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the manager ended with: %v", err)
		}
	})
}

func (w *environment) create(object client.Object) {
	w.Helper()
	if err := w.Create(w.T.Context(), object); err != nil {
		w.Fatalf("creating %T: %v", object, err)
	}
}

// machine creates a Machine of the labels that the check named "check" selects, controlled by
// the owner of that name, which need not exist, and joined as a Node that is ready.
func (w *environment) machine(name, owner string) *clusterv1.Machine {
	w.Helper()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Labels: map[string]string{"pool": "a"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: owner, UID: types.UID(owner), Controller: new(true),
			}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c",
			Bootstrap:   clusterv1.Bootstrap{DataSecretName: new("s")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: name,
			},
		},
	}
	w.create(m)
	w.join(m)
	return m
}

// join gives a Machine a Node that is ready.
func (w *environment) join(m *clusterv1.Machine) {
	w.Helper()
	providerID := "test://" + w.namespace + "/" + m.Name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node(m.Name)}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	w.create(node)
	w.Cleanup(func() {
		if err := client.IgnoreNotFound(w.Delete(context.Background(), node)); err != nil {
			w.Errorf("deleting Node %q: %v", node.Name, err)
		}
	})
	w.ready(m.Name, corev1.ConditionTrue)
	w.change(m, func() { m.Spec.ProviderID = providerID })
	w.changeStatus(m, func() { m.Status.NodeRef.Name = node.Name })
}

func (w *environment) node(machine string) string { return w.namespace + "-" + machine }

// ready sets the Ready condition of a Machine's Node.
func (w *environment) ready(machine string, status corev1.ConditionStatus) {
	w.Helper()
	node := &corev1.Node{}
	w.Eventually(func() error {
		if err := w.Get(w.T.Context(), client.ObjectKey{Name: w.node(machine)}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
		return w.Status().Update(w.T.Context(), node)
	}).Should(gomega.Succeed())
}

// change and changeStatus write an object, reading it anew as often as others write it too.
func (w *environment) change(object client.Object, do func()) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Get(w.T.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		do()
		return w.Update(w.T.Context(), object)
	}).Should(gomega.Succeed())
}

func (w *environment) changeStatus(object client.Object, do func()) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Get(w.T.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		do()
		return w.Status().Update(w.T.Context(), object)
	}).Should(gomega.Succeed())
}

// check creates a MachineHealthCheck to which a Node that is not ready is unhealthy at once.
func (w *environment) check(name string, changes ...func(*clusterv1.MachineHealthCheck)) *clusterv1.MachineHealthCheck {
	w.Helper()
	check := newCheck(w.namespace, name)
	for _, change := range changes {
		change(check)
	}
	w.create(check)
	return check
}

func newCheck(namespace, name string) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	check.Spec.ClusterName = "c"
	check.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(0))},
	}
	return check
}
