// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/logtest"
)

// eventTimeout bounds waiting for a real API server; no test measures time by it.
const eventTimeout = 4 * time.Minute

// apiServer is the management cluster and the workload cluster of the tests that need one.
var apiServer = &envtest.Server{Project: true}

// connections connects the Clusters of the API server, in a manager without controllers for Machines.
var connections = sync.OnceValues(func() (*workload.Connections, error) {
	config, err := apiServer.Start()
	if err != nil {
		return nil, err
	}
	scheme, err := envtest.Scheme()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	workloads := workload.New(workload.Options{})
	if err := workloads.Register(mgr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	stopManager = func() error {
		cancel()
		return <-stopped
	}
	go func() { stopped <- mgr.Start(ctx) }()
	return workloads, nil
})

var stopManager = func() error { return nil }

func TestMain(m *testing.M) {
	envtest.Main(m, func() error { return stopManager() }, apiServer.Stop)
}

// environment is a Machine that is being deleted, with a Node in a connected workload cluster.
type environment struct {
	*testing.T
	client    client.WithWatch
	workloads *workload.Connections
	state     *State
	clock     *testingclock.FakePassiveClock
	events    *events.FakeRecorder
	log       logtest.TextRecorder
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	workloads, err := connections()
	if err != nil {
		t.Fatal(err)
	}
	e := &environment{
		T: t, client: apiServer.Client(t), workloads: workloads,
		clock: testingclock.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(10),
	}
	namespace := apiServer.Namespace(t)
	config, err := apiServer.Start()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
		Data:       map[string][]byte{"value": kubeconfig},
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	e.create(cluster)
	node := e.node("thing://" + namespace)
	e.state = deleting(func(s *State) {
		s.Cluster, s.Node = cluster, node
		s.Machine.Namespace, s.Machine.Spec.ProviderID, s.Machine.Status.NodeRef.Name = namespace, node.Spec.ProviderID, node.Name
	})
	e.eventually("the workload cluster to be connected", func() bool {
		_, err := workloads.Get(e.state.clusterKey())
		return err == nil
	})
	return e
}

// drain is the drain step, and detach the next.
func (e *environment) drain() drainStep {
	return drainStep{e.client, e.workloads, &drain.Drainer{}, &recorder{e.events}, e.clock, &safety.Guard{Reader: e.client}}
}

func (e *environment) detach() detachStep { return detachStep{e.drain(), &volume.Waiter{}} }

func (e *environment) create(object client.Object) {
	e.Helper()
	if err := e.client.Create(e.Context(), object); err != nil {
		e.Fatalf("creating %T: %v", object, err)
	}
}

func (e *environment) node(providerID string) *corev1.Node {
	e.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	e.create(node)
	e.Cleanup(func() { _ = e.client.Delete(context.Background(), node) })
	return node
}

// pod creates a Pod on the Node. Without a kubelet it terminates only when the test deletes it.
func (e *environment) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.state.Machine.Namespace, Name: name}}
	pod.Spec = corev1.PodSpec{NodeName: e.state.Node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if change != nil {
		change(pod)
	}
	e.create(pod)
	return pod
}

// run runs a step, and records its progress in the condition of the Machine as the machine controller does.
func (e *environment) run(s step) Progress {
	e.Helper()
	progress, err := s.run(e.log.Context(e.Context()), e.state)
	if err != nil {
		e.Fatal(err)
	}
	setDeletingReason(e.state.Machine, progress.Reason)
	return progress
}

func (e *environment) eventually(what string, is func() bool) {
	e.Helper()
	for deadline := time.Now().Add(eventTimeout); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("timed out waiting for %s", what)
		}
	}
}

// expectEvent checks the next event, and that there is no other.
func (e *environment) expectEvent(want string) {
	e.Helper()
	select {
	case event := <-e.events.Events:
		if !contains(event, want) || want == "" {
			e.Errorf("event %q, want %q", event, want)
		}
	default:
		if want != "" {
			e.Errorf("no event, want %q", want)
		}
	}
	if n := len(e.events.Events); n > 0 {
		e.Errorf("%d more events", n)
	}
}
