// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package templateowner

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/envtest"
	"drover.io/runtime/predicates"
)

// eventuallyTimeout bounds waiting for a real API server; no test measures time by it.
const eventuallyTimeout = 4 * time.Minute

// management is the API server that the tests of this package share, with the kinds of an unknown provider.
var management = &envtest.Server{Project: true, Folders: []string{"../machineset/testdata"}}

func TestMain(m *testing.M) { envtest.Main(m, management.Stop) }

// Both kinds of templates.
var (
	infraTemplate     = schema.GroupVersionKind{Group: "infrastructure.test.io", Version: "v1", Kind: "ThingMachineTemplate"}
	bootstrapTemplate = schema.GroupVersionKind{Group: "bootstrap.test.io", Version: "v1", Kind: "ThingConfigTemplate"}
)

// environment is a namespace of the API server with a Cluster "c".
type environment struct {
	*testing.T
	*gomega.WithT
	client  client.WithWatch
	cluster *clusterv1.Cluster
	writes  *writes
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	e := &environment{T: t, WithT: gomega.NewWithT(t), client: management.Client(t), writes: &writes{}}
	e.SetDefaultEventuallyTimeout(eventuallyTimeout)
	e.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	e.cluster = testenv.Cluster(management.Namespace(t))
	e.create(e.cluster)
	return e
}

// writes counts the requests of a client that change something, by the kind and name of the object.
type writes struct {
	mu    sync.Mutex
	count map[string]int
}

func (w *writes) client(c client.WithWatch) client.WithWatch {
	note := func(o client.Object) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.count == nil {
			w.count = map[string]int{}
		}
		w.count[o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName()]++
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			note(o)
			return c.Patch(ctx, o, patch, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			note(o)
			return c.Update(ctx, o, options...)
		},
	})
}

// expect compares the requests so far with the wanted ones.
func (w *writes) expect(t *testing.T, want map[string]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.count); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// start runs the controller alone, on the namespace of the environment.
func (e *environment) start(watch predicates.WatchFilter) {
	e.Helper()
	config, err := management.Start()
	e.Expect(err).NotTo(gomega.HaveOccurred())
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewClient: index.NewClient, Scheme: e.client.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{e.cluster.Namespace: {}}, DefaultTransform: contract.Slim},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	e.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	e.Expect(index.Register(ctx, mgr.GetFieldIndexer())).To(gomega.Succeed())
	cached, err := client.NewWithWatch(config, client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache(), Unstructured: true},
	})
	e.Expect(err).NotTo(gomega.HaveOccurred())
	r := &Reconciler{Client: e.writes.client(cached), Live: mgr.GetAPIReader(), Contract: &contract.Reader{
		Resolver: &contract.Resolver{Reader: cached}, Cached: cached,
		Watcher: &contract.Watcher{Live: mgr.GetAPIReader(), Namespace: e.cluster.Namespace, Cache: mgr.GetCache(), Clock: clock.RealClock{}},
	}}
	e.Expect(r.Register(mgr, watch, controller.Options{})).To(gomega.Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	e.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			e.Errorf("the manager ended with: %v", err)
		}
	})
}

func (e *environment) create(objects ...client.Object) {
	e.Helper()
	for _, object := range objects {
		if err := e.client.Create(e.Context(), object); err != nil {
			e.Fatalf("creating %T %q: %v", object, object.GetName(), err)
		}
	}
}

// deployment is a MachineDeployment "md" without Machines that refers to both templates of that name.
func (e *environment) deployment(template string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.cluster.Namespace, Name: "md"}}
	md.Spec.ClusterName, md.Spec.Replicas = "c", new(int32(0))
	md.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	md.Spec.Template = machineTemplate(template)
	return md
}

// set is a MachineSet "set" without Machines that refers to both templates of that name.
func (e *environment) set(template string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: e.cluster.Namespace, Name: "set"}}
	set.Spec.ClusterName, set.Spec.Replicas = "c", new(int32(0))
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	set.Spec.Template = machineTemplate(template)
	return set
}

func machineTemplate(template string) clusterv1.MachineTemplateSpec {
	spec := testenv.TemplateSpec()
	spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infraTemplate.Group, Kind: infraTemplate.Kind, Name: template}
	spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapTemplate.Group, Kind: bootstrapTemplate.Kind, Name: template,
	}}
	return clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a"}}, Spec: spec}
}

// template is a template as a user writes it.
func (e *environment) template(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(e.cluster.Namespace)
	o.SetName(name)
	return o
}

// templates creates both templates of the name.
func (e *environment) templates(name string) (infra, bootstrap *unstructured.Unstructured) {
	e.Helper()
	infra, bootstrap = e.template(infraTemplate, name), e.template(bootstrapTemplate, name)
	e.create(infra, bootstrap)
	return infra, bootstrap
}

// owners are the owner references that a template has now.
func (e *environment) owners(template client.Object) []metav1.OwnerReference {
	e.Helper()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(template.GetObjectKind().GroupVersionKind())
	if err := e.client.Get(context.WithoutCancel(e.Context()), client.ObjectKeyFromObject(template), found); err != nil {
		e.Fatalf("reading %s %q: %v", template.GetObjectKind().GroupVersionKind().Kind, template.GetName(), err)
	}
	return found.OwnerReferences
}

// awaitOwner waits until the Cluster is the only owner of the templates.
func (e *environment) awaitOwner(templates ...client.Object) {
	e.Helper()
	for _, template := range templates {
		e.Eventually(func() []metav1.OwnerReference { return e.owners(template) }).Should(gomega.Equal(ownedBy(e.cluster)), template.GetName())
	}
}

func ownedBy(cluster *clusterv1.Cluster) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}}
}
