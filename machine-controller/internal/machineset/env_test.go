// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machine"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/envtest"
)

// eventuallyTimeout bounds waiting for a real API server; no test measures time by it.
const eventuallyTimeout = 4 * time.Minute

// The tests of this package share one real API server and one manager with the MachineSet
// and Machine controllers, started by the first test that uses them.
var (
	management = &envtest.Server{Project: true, Folders: []string{"testdata"}}
	// unmanaged is an API server that no manager acts on.
	unmanaged   = &envtest.Server{Project: true, Folders: []string{"testdata"}}
	stopManager = func() {}
	faults      = &faultPlan{plans: map[string]*fault{}, sent: map[string][]client.Object{}}
)

var startEnvironment = sync.OnceValues(func() (*rest.Config, error) {
	config, err := management.Start()
	if err != nil {
		return nil, err
	}
	return config, startManager(config)
})

func TestMain(m *testing.M) {
	envtest.Main(m, func() error { stopManager(); return nil }, management.Stop, unmanaged.Stop)
}

// startManager runs both controllers, whose writes go through faults.
func startManager(config *rest.Config) error {
	s, err := envtest.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewClient: index.NewClient,
		Scheme:    s, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultTransform: contract.Slim},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		cancel()
		return err
	}
	if err := registerControllers(mgr, config); err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopManager = func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "running the manager:", err)
		}
	}
	return nil
}

// newGuard refuses nothing: both clusters answer, and no limit is near.
func newGuard(reader client.Reader) *safety.Guard {
	reach := safety.Reachability{Since: time.Now()}
	return &safety.Guard{
		Reader: reader, Default: policy.Default(), Period: time.Hour, Clock: clock.RealClock{},
		Workload: func(client.ObjectKey) workload.State {
			return workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}}
		},
		Management: func() safety.Reachability { return reach },
	}
}

func registerControllers(mgr ctrl.Manager, config *rest.Config) error {
	inner, err := client.NewWithWatch(config, client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache(), Unstructured: true},
	})
	if err != nil {
		return err
	}
	workloads := workload.New(workload.Options{})
	if err := workloads.Register(mgr); err != nil {
		return err
	}
	resolver := &contract.Resolver{Reader: inner}
	recorder := mgr.GetEventRecorder("test")
	options := controller.Options{MaxConcurrentReconciles: 20}
	guard := newGuard(inner)
	sets := &Reconciler{
		Client: faults.client(inner, "machineset"), Live: mgr.GetAPIReader(), Templates: &contract.Templates{Resolver: resolver, Live: mgr.GetAPIReader()},
		Guard: guard, Workloads: workloads, Events: recorder, Clock: clock.RealClock{},
	}
	if err := sets.Register(mgr, "", options); err != nil {
		return err
	}
	machines := &machine.Reconciler{
		Client: faults.client(inner, "machine"), Live: mgr.GetAPIReader(), Workloads: workloads, Drainer: &drain.Drainer{}, Volumes: &volume.Waiter{}, Guard: guard,
		Events: recorder, Clock: clock.RealClock{}, RemoteConditionsGracePeriod: 5 * time.Minute,
		Contract: &contract.Reader{Resolver: resolver, Cached: inner, Watcher: &contract.Watcher{
			Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: clock.RealClock{},
			Owner: handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](mgr.GetScheme(), mgr.GetRESTMapper(), &clusterv1.Machine{}),
		}},
	}
	return machines.Register(mgr, "", options)
}

// fault is which write of which controller fails in a namespace, and how.
type fault struct {
	controller string
	n          int
	// lost sends the write and loses only its response.
	lost bool
	err  error

	seen  int
	fired bool
}

// faultPlan holds a fault per namespace and keeps every object that was created there, as it was sent.
type faultPlan struct {
	mu    sync.Mutex
	plans map[string]*fault
	sent  map[string][]client.Object
}

func (p *faultPlan) plan(namespace string, f *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans[namespace] = f
}

// created are the objects of a kind whose creation the API server has accepted.
func (p *faultPlan) created(namespace, kind string) []client.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []client.Object
	for _, o := range p.sent[namespace] {
		if o.GetObjectKind().GroupVersionKind().Kind == kind || (kind == "Machine" && fmt.Sprintf("%T", o) == "*v1beta2.Machine") {
			found = append(found, o)
		}
	}
	return found
}

// fired reports whether the fault of a namespace has happened.
func (p *faultPlan) fired(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plans[namespace].fired
}

// write does a write, or makes it fail.
func (p *faultPlan) write(controller string, o client.Object, do func() error) error {
	p.mu.Lock()
	f := p.plans[o.GetNamespace()]
	hit := false
	if f != nil && f.controller == controller {
		f.seen++
		hit = f.seen == f.n
		f.fired = f.fired || hit
	}
	p.mu.Unlock()
	if hit && !f.lost {
		return f.err
	}
	if err := do(); err != nil {
		return err
	}
	if hit {
		return f.err
	}
	return nil
}

func (p *faultPlan) client(inner client.WithWatch, controller string) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return p.write(controller, o, func() error {
				sent, _ := o.DeepCopyObject().(client.Object)
				if err := c.Create(ctx, o, options...); err != nil {
					return err
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				p.sent[o.GetNamespace()] = append(p.sent[o.GetNamespace()], sent)
				return nil
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return p.write(controller, o, func() error { return c.Delete(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return p.write(controller, o, func() error { return c.Patch(ctx, o, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return p.write(controller, o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, options...) })
		},
	})
}

// environment is a namespace with a Cluster.
type environment struct {
	*testing.T
	*gomega.WithT
	client    client.Client
	namespace string
	// name is the name of the case in failures.
	name string
}

func newEnvironment(t *testing.T, f *fault) *environment {
	t.Helper()
	config, err := startEnvironment()
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	s, err := envtest.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &environment{T: t, WithT: gomega.NewWithT(t), client: c}
	w.SetDefaultEventuallyTimeout(eventuallyTimeout)
	w.SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "machineset-"}}
	w.create(namespace)
	w.namespace = namespace.Name
	if f != nil {
		faults.plan(w.namespace, f)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	w.create(cluster)
	return w
}

func (w *environment) create(o client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), o); err != nil {
		w.Fatalf("creating %T: %v", o, err)
	}
}

// templates creates both templates.
func (w *environment) templates() {
	w.Helper()
	for _, each := range [][2]string{{"infrastructure.test.io", "ThingMachineTemplate"}, {"bootstrap.test.io", "ThingConfigTemplate"}} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": "big"}}}}}
		o.SetAPIVersion(each[0] + "/v1")
		o.SetKind(each[1])
		o.SetNamespace(w.namespace)
		o.SetName("t")
		w.create(o)
	}
}

// set creates a MachineSet "s".
func (w *environment) set(replicas int32) *clusterv1.MachineSet {
	w.Helper()
	set := machineSet(w.namespace)
	set.Spec.Replicas = &replicas
	w.create(set)
	return set
}

func machineSet(namespace string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	set.Spec.ClusterName, set.Spec.Template.Spec.ClusterName = "c", "c"
	set.Spec.Selector.MatchLabels, set.Spec.Template.Labels = map[string]string{"pool": "a"}, map[string]string{"pool": "a"}
	set.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingMachineTemplate", Name: "t"}
	set.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: "ThingConfigTemplate", Name: "t"}
	return set
}

// names are the names of all objects of a kind, each once.
func (w *environment) names(apiVersion, kind string) []string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind+"List"))
	if err := w.client.List(w.Context(), list, client.InNamespace(w.namespace)); err != nil {
		return []string{err.Error()}
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}
