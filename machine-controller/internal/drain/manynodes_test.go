// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	drainedNodes = 20
	appReplicas  = 40
	drainWorkers = 2
)

// drainOrders is the drain order of each app; 0 has no rule.
var drainOrders = map[string]int32{"cache": -1, "web": 0, "api": 0, "db": 5, "queue": 5}

// TestManyNodesAtOnce drains 20 Nodes with 200 Pods at once, by two workers, while the budget of each app allows one disruption.
// Real ReplicaSets replace the Pods and the real disruption controller updates the budgets; the test acts as
// scheduler and kubelet. A watch checks: no app ever lacks more than one Pod, no Pod is evicted before its order.
func TestManyNodesAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, config := controlPlane(t)
	old := createNodes(ctx, t, c, "old", drainedNodes)
	w := newClusterSimulation(ctx, t, config, names20("old"))
	for app := range drainOrders {
		createApp(ctx, t, c, app)
	}
	awaitBudgets(ctx, t, c)

	createNodes(ctx, t, c, "new", 5)
	w.scheduleOn("new-0", "new-1", "new-2", "new-3", "new-4")
	referee := newReferee(ctx, t, c)
	drainAll(ctx, t, c, old)
	referee.outcome(ctx, t, c)

	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" && p.Spec.NodeName[:3] == "old" {
			t.Errorf("Pod %s is still on %s", p.Name, p.Spec.NodeName)
		}
	}
}

// drainAll is what a controller does: a queue, two workers, one pass at a time. Waiting goes a hundred times
// faster than the Drainer requests.
func drainAll(ctx context.Context, t *testing.T, c client.WithWatch, nodes map[string]*corev1.Node) {
	t.Helper()
	queue := workqueue.NewTypedDelayingQueue[string]()
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	d := &Drainer{}
	var mu sync.Mutex
	var passes, evictions, refused int
	messages := map[string]string{}
	var workers sync.WaitGroup
	for name := range nodes {
		messages[name] = "not begun"
		queue.Add(name)
	}
	for range drainWorkers {
		workers.Go(func() {
			for {
				name, shutdown := queue.Get()
				if shutdown {
					return
				}
				counted := counting(c)
				result, err := drainOnce(ctx, d, counted, nodes[name])
				queue.Done(name)
				requests := counted.counts()
				mu.Lock()
				passes, evictions, refused = passes+1, evictions+len(result.Removed), refused+requests["evict"]-len(result.Removed)
				switch {
				case err != nil && ctx.Err() == nil:
					t.Errorf("draining %s: %v", name, err)
					queue.ShutDown()
				case result.Done:
					delete(messages, name)
				default:
					messages[name] = result.Progress.Message()
					queue.AddAfter(name, result.RequeueAfter/100)
				}
				if requests["list Pod"] > 1 || requests["list PodDisruptionBudget"] > 1 || requests["evict"] > 20 {
					t.Errorf("a pass over %s made the requests %v", name, requests)
				}
				if len(messages) == 0 {
					queue.ShutDown()
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for name, message := range messages {
		t.Errorf("%s is not drained: %s", name, message)
	}
	if want := len(drainOrders) * appReplicas; evictions != want {
		t.Errorf("evicted %d Pods, want %d: each once", evictions, want)
	}
	t.Logf("%d passes, %d evictions, %d refused", passes, evictions, refused)
}

func drainOnce(ctx context.Context, d *Drainer, c client.Client, node *corev1.Node) (Result, error) {
	if err := Cordon(ctx, c, node); err != nil {
		return Result{}, err
	}
	req := Request{Client: c, Machine: "machine-of-" + node.UID, Node: node, Now: time.Now()}
	for app, o := range drainOrders {
		if o != 0 {
			req.Rules = append(req.Rules, drainRule(app, clusterv1.MachineDrainRuleDrainBehaviorDrain, order(o),
				forPods(clusterv1.MachineDrainRulePodSelector{Selector: with("app", app)})))
		}
	}
	return d.DrainNode(ctx, req)
}

func names20(prefix string) []string {
	names := make([]string, drainedNodes)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return names
}

func createNodes(ctx context.Context, t *testing.T, c client.Client, prefix string, n int) map[string]*corev1.Node {
	t.Helper()
	nodes := map[string]*corev1.Node{}
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}
		if err := c.Create(ctx, node); err != nil {
			t.Fatal(err)
		}
		nodes[node.Name] = node
	}
	return nodes
}

func createApp(ctx context.Context, t *testing.T, c client.Client, app string) {
	t.Helper()
	for _, obj := range []client.Object{
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: with("app", app), MaxUnavailable: new(intstr.FromInt32(1))},
		},
		&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(appReplicas)), Selector: with("app", app),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		},
	} {
		if err := c.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitBudgets waits until the disruption controller counts every Pod of every app as healthy.
func awaitBudgets(ctx context.Context, t *testing.T, c client.WithWatch) {
	t.Helper()
	watcher, err := c.Watch(ctx, &policyv1.PodDisruptionBudgetList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	complete := map[string]bool{}
	for event := range watcher.ResultChan() {
		pdb, ok := event.Object.(*policyv1.PodDisruptionBudget)
		if !ok {
			t.Fatalf("watching PodDisruptionBudgets: %v", event.Object)
		}
		if s := pdb.Status; s.CurrentHealthy == appReplicas && s.DisruptionsAllowed == 1 {
			complete[pdb.Name] = true
		}
		if len(complete) == len(drainOrders) {
			return
		}
	}
	t.Fatalf("the apps did not come up: %v", complete)
}
