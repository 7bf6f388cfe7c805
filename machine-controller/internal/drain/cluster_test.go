// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

// controlPlane starts an API server of its own with the real kube-controller-manager: ReplicaSets and budgets.
func controlPlane(t *testing.T) (client.WithWatch, *rest.Config) {
	t.Helper()
	assets, err := envtest.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	server := &envtest.Server{}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	kubeconfig, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	controllers := exec.Command(filepath.Join(assets, "kube-controller-manager"), "--kubeconfig="+path,
		"--controllers=replicaset-controller,disruption-controller", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
	controllers.Env, controllers.Stdout, controllers.Stderr = envtest.Environment(), &output, &output
	if err := controllers.Start(); err != nil {
		t.Fatalf("starting kube-controller-manager, built by `make control-plane`: %v", err)
	}
	t.Cleanup(func() {
		_ = controllers.Process.Kill()
		_ = controllers.Wait()
		if t.Failed() {
			t.Logf("output of kube-controller-manager:\n%s", output.String())
		}
	})
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c, config
}

// clusterSimulation acts as the scheduler and all kubelets, from watch events and with retries.
type clusterSimulation struct {
	pods  cache.SharedIndexInformer
	kube  kubernetes.Interface
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	nodes atomic.Pointer[[]string]
	next  atomic.Int64
}

func newClusterSimulation(ctx context.Context, t *testing.T, config *rest.Config, nodes []string) *clusterSimulation {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kube, 0)
	w := &clusterSimulation{
		pods: factory.Core().V1().Pods().Informer(), kube: kube,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	w.scheduleOn(nodes...)
	enqueue := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			w.queue.Add(cache.MetaObjectToName(pod))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }}
	if _, err := w.pods.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { w.work(ctx) })
	}
	t.Cleanup(func() {
		w.queue.ShutDown()
		workers.Wait()
		factory.Shutdown()
	})
	return w
}

func (w *clusterSimulation) scheduleOn(nodes ...string) { w.nodes.Store(&nodes) }

func (w *clusterSimulation) work(ctx context.Context) {
	for {
		key, shutdown := w.queue.Get()
		if shutdown {
			return
		}
		if obj, exists, err := w.pods.GetStore().GetByKey(key.String()); err == nil && exists {
			if err := w.act(ctx, obj.(*corev1.Pod)); client.IgnoreNotFound(err) != nil {
				w.queue.AddRateLimited(key)
			}
		}
		w.queue.Done(key)
	}
}

func (w *clusterSimulation) act(ctx context.Context, pod *corev1.Pod) error {
	pods := w.kube.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case pod.Spec.NodeName == "":
		nodes := *w.nodes.Load()
		target := corev1.ObjectReference{Kind: "Node", Name: nodes[w.next.Add(1)%int64(len(nodes))]}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Target: target}
		return pods.Bind(ctx, binding, metav1.CreateOptions{})
	case !ready(pod):
		pod = pod.DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	return nil
}

const whistle = "whistle"

// referee follows every state that a Pod ever had, in the order in which the API server wrote them.
type referee struct {
	watcher  watch.Interface
	finished chan struct{}
	pods     map[string]*corev1.Pod
	faults   []string
	least    map[string]int
	seen     int
}

func newReferee(ctx context.Context, t *testing.T, c client.WithWatch) *referee {
	t.Helper()
	r := &referee{finished: make(chan struct{}), pods: map[string]*corev1.Pod{}, least: map[string]int{}}
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		r.pods[list.Items[i].Name] = &list.Items[i]
	}
	watcher, err := c.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	r.watcher = watcher
	go func() {
		defer close(r.finished)
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Name == whistle {
				return
			}
			r.see(event)
		}
	}()
	return r
}

func (r *referee) see(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		r.faults = append(r.faults, fmt.Sprintf("the watch broke: %v", event.Object))
		return
	}
	r.seen++
	before := r.pods[pod.Name]
	if pod.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) {
		r.turn(pod)
	}
	if event.Type == watch.Deleted {
		delete(r.pods, pod.Name)
	} else {
		r.pods[pod.Name] = pod
	}
	healthy := map[string]int{}
	for _, p := range r.pods {
		if ready(p) && p.DeletionTimestamp == nil {
			healthy[p.Labels["app"]]++
		}
	}
	for app := range drainOrders {
		if healthy[app] < appReplicas-1 {
			r.faults = append(r.faults, fmt.Sprintf("%s has %d healthy Pods", app, healthy[app]))
		}
		r.least[app] = min(r.least[app], healthy[app]-appReplicas)
	}
}

// turn checks that no Pod of a smaller order is left on the Node.
func (r *referee) turn(pod *corev1.Pod) {
	for _, other := range r.pods {
		sameNode := other.Spec.NodeName == pod.Spec.NodeName
		if sameNode && drainOrders[other.Labels["app"]] < drainOrders[pod.Labels["app"]] {
			r.faults = append(r.faults, fmt.Sprintf("%s was evicted before %s", pod.Name, other.Name))
		}
	}
}

// outcome ends the game with one more Pod, so that the referee has seen all that came before.
func (r *referee) outcome(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	last := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: whistle},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Create(ctx, last); err != nil {
		t.Fatal(err)
	}
	<-r.finished
	r.watcher.Stop()
	for _, f := range r.faults {
		t.Error(f)
	}
	// A referee that saw nothing would find no fault.
	for app := range drainOrders {
		if r.least[app] != -1 {
			t.Errorf("the referee never saw a Pod of %s missing", app)
		}
	}
	t.Logf("the referee saw %d events", r.seen)
}
