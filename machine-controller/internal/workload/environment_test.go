// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/envtest"
)

// waitTimeout bounds every wait for a real API server.
const waitTimeout = 4 * time.Minute

// management and servers are started when a test first uses them, and stopped by TestMain.
var (
	management = &envtest.Server{CRDs: []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: clusterv1.GroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Cluster", ListKind: "ClusterList", Plural: "clusters", Singular: "cluster"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: clusterv1.GroupVersion.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}}}
	servers = map[string]*envtest.Server{"a": {}, "b": {}, "empty": {}, "events": {}}
)

func TestMain(m *testing.M) {
	stops := []func() error{management.Stop}
	for _, server := range servers {
		stops = append(stops, server.Stop)
	}
	envtest.Main(m, stops...)
}

// apiServer returns the configuration of the shared API server of that name.
func apiServer(t testing.TB, name string) *rest.Config { return start(t, servers[name]) }

func managementServer(t testing.TB) *rest.Config { return start(t, management) }

func start(t testing.TB, server *envtest.Server) *rest.Config {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// environment is a manager with Connections, in a namespace of its own.
type environment struct {
	testing.TB
	*gomega.WithT
	management  client.Client
	namespace   string
	connections *Connections
	registry    *prometheus.Registry
	nodeEvents  workqueue.TypedRateLimitingInterface[reconcile.Request]
	stop        func()
}

// newEnvironment starts a manager. Options may be changed before it does.
func newEnvironment(t testing.TB, change func(*Options)) *environment {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	config := managementServer(t)
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	management, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "workload-"}}
	if err := management.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := &environment{TB: t, WithT: gomega.NewWithT(t), management: management, namespace: namespace.Name, registry: prometheus.NewRegistry()}
	w.SetDefaultEventuallyTimeout(waitTimeout)
	w.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)

	options := Options{
		Namespace: w.namespace, Registerer: w.registry,
		ProbeInterval: 200 * time.Millisecond, RetryInterval: 100 * time.Millisecond, MaxRetryInterval: 500 * time.Millisecond,
	}
	change(&options)
	w.connections = New(options)
	w.start(config, scheme)
	return w
}

func (w *environment) start(config *rest.Config, scheme *runtime.Scheme) {
	w.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(w.connections.Register(mgr)).To(gomega.Succeed())

	ctx, cancel := context.WithCancel(context.Background())
	w.nodeEvents = w.queue()
	w.Expect(w.connections.NodeEvents(toNode).Start(ctx, w.nodeEvents)).To(gomega.Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the manager ended with: %v", err)
		}
	})
	w.Cleanup(w.stop)
}

func (w *environment) queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	w.Cleanup(queue.ShutDown)
	return queue
}

// toNode maps a Node to a request that names it.
func toNode(cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Name, Name: node.Name}}}
}

// nextNode waits for the next Node event and returns "<cluster>/<node>".
func (w *environment) nextNode() string {
	w.Helper()
	w.Eventually(w.nodeEvents.Len).Should(gomega.BeNumerically(">", 0), "no Node event arrives")
	request, _ := w.nodeEvents.Get()
	w.nodeEvents.Done(request)
	return request.String()
}

func (w *environment) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// cluster creates a Cluster, after its kubeconfig Secret unless that is empty.
func (w *environment) cluster(name, kubeconfig string) {
	w.Helper()
	if kubeconfig != "" {
		w.secret(name, kubeconfig)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.Expect(w.management.Create(w.Context(), cluster)).To(gomega.Succeed())
}

// secret creates or replaces a Cluster's kubeconfig Secret.
func (w *environment) secret(cluster, kubeconfig string) {
	w.Helper()
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: cluster + "-kubeconfig",
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Data: map[string][]byte{"value": []byte(kubeconfig)},
	}
	existing := &corev1.Secret{}
	if err := w.management.Get(w.Context(), client.ObjectKeyFromObject(secret), existing); err == nil {
		existing.Data = secret.Data
		w.Expect(w.management.Update(w.Context(), existing)).To(gomega.Succeed())
		return
	}
	w.Expect(w.management.Create(w.Context(), secret)).To(gomega.Succeed())
}

func (w *environment) deleteCluster(name string) {
	w.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.Expect(w.management.Delete(w.Context(), cluster)).To(gomega.Succeed())
}

// connected waits for the connection to a Cluster.
func (w *environment) connected(name string) *Connection {
	w.Helper()
	var connection *Connection
	w.Eventually(func() (err error) {
		connection, err = w.connections.Get(w.key(name))
		return err
	}).Should(gomega.Succeed())
	return connection
}

// refused waits until a Cluster is not connected for that reason and returns its state.
func (w *environment) refused(name string, reason Reason) State {
	w.Helper()
	var state State
	w.Eventually(func(g gomega.Gomega) {
		state = w.connections.State(w.key(name))
		g.Expect(state.Reason).To(gomega.Equal(reason), state.Message)
		g.Expect(state.Connected).To(gomega.BeFalse())
	}).Should(gomega.Succeed())
	return state
}

// kubeconfigOf writes a client configuration as a kubeconfig.
func kubeconfigOf(t testing.TB, config *rest.Config) string {
	t.Helper()
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// liveClient reaches an API server without Connections.
func liveClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	live, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// createNode creates a Node that goes with the test.
func createNode(t testing.TB, live client.Client, name, providerID string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := live.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(live.Delete(context.Background(), node)); err != nil {
			t.Errorf("deleting Node %q: %v", name, err)
		}
	})
	return node
}
