// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/drainplan"
	"drover.io/runtime/metric/metrictest"
)

func TestDrainNodeEvictsAndWaitsForTheKubelet(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("web", unmanaged, withEmptyDir)
	s.pod("job", phase(corev1.PodSucceeded))
	s.pod("static", static)
	d := &Drainer{}

	result := s.pass(d, s.request())
	s.wantPods("static web!")
	s.wantMessage(result.Progress, "* Pods app/job, app/web: being deleted, waiting for the kubelet to end them")
	want := []Removal{
		{Pod: types.NamespacedName{Namespace: s.namespace, Name: "job"}},
		{Pod: types.NamespacedName{Namespace: s.namespace, Name: "web"}, Warnings: []string{drainplan.WarningEmptyDir, drainplan.WarningUnmanaged}},
	}
	if diff := cmp.Diff(want, result.Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if again := s.pass(d, s.request()); again.Done || len(again.Removed) > 0 {
		t.Errorf("evicted again: %+v", again)
	}
	s.kubelet()
	if result := s.pass(d, s.request()); !result.Done || result.RequeueAfter != 0 {
		t.Errorf("not done when only the static Pod is left: %+v", result)
	}
}

func TestDrainNodeKeepsToTheBudget(t *testing.T) {
	t.Parallel()
	registry := metrictest.Of(t, evictions)
	counted := metrictest.Samples(t, registry)
	defer func() { // others count, too
		after := metrictest.Samples(t, registry)
		for _, outcome := range []string{evicted, awaitsBudget} {
			if key := "machine_controller_evictions_total outcome=" + outcome; after[key] <= counted[key] {
				t.Errorf("no eviction is counted as %s: %v", outcome, after)
			}
		}
	}()
	s := newTestNode(t)
	pdb := s.budget("web", "web", 1)
	s.pod("web-1")
	s.pod("web-2")
	s.pod("db", labelled("app", "db"))
	d := &Drainer{}

	result := s.pass(d, s.request())
	s.wantPods("db! web-1! web-2")
	s.wantMessage(result.Progress,
		"* Pod app/web-2: PodDisruptionBudget app/web allows no disruption now",
		"* Pods app/db, app/web-1: being deleted, waiting for the kubelet to end them",
	)
	s.kubelet()
	before := s.pass(d, s.request())
	if diff := cmp.Diff(before, s.pass(d, s.request())); diff != "" {
		t.Errorf("the result changes although nothing does:\n%s", diff)
	}

	if err := s.Get(t.Context(), client.ObjectKeyFromObject(pdb), pdb); err != nil {
		t.Fatal(err)
	}
	pdb.Status.DisruptionsAllowed, pdb.Status.DisruptedPods = 1, nil
	if err := s.Status().Update(t.Context(), pdb); err != nil {
		t.Fatal(err)
	}
	s.pass(d, s.request())
	s.wantPods("web-2!")
}

func TestDrainNodeNamesMisconfiguredBudgets(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.budget("never", "web", 0, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, new(intstr.FromInt32(3))
		b.Status.DesiredHealthy, b.Status.CurrentHealthy = 3, 3
	})
	s.budget("one", "db", 1)
	s.budget("two", "db", 1)
	s.pod("db", labelled("app", "db"))
	s.pod("web")

	result := s.pass(&Drainer{}, s.request())
	s.wantPods("db web")
	s.wantMessage(result.Progress,
		"* Pod app/web: PodDisruptionBudget app/never is misconfigured, it can never allow a disruption: it requires 3 of 3 Pods to be healthy",
		"* Pod app/db: PodDisruptionBudgets app/one, app/two select the same Pod, eviction works with one only",
	)
	if result.RequeueAfter != latest {
		t.Errorf("looks again after %s although nothing will change by itself", result.RequeueAfter)
	}
}

// TestPredictAgreesWithTheAPIServer compares the predicted refusals with those of the API server.
func TestPredictAgreesWithTheAPIServer(t *testing.T) {
	t.Parallel()
	type pdb = policyv1.PodDisruptionBudget
	always := func(b *pdb) { b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) }
	poor := func(b *pdb) { b.Status.CurrentHealthy = 1 }
	stale := func(b *pdb) { b.Status.ObservedGeneration = 0 }
	tests := map[string]struct {
		options []podOption
		allowed int32
		change  []func(*pdb)
		second  bool
	}{
		"a disruption is left":                   {allowed: 1},
		"none is left":                           {},
		"the budget is not observed":             {allowed: 1, change: []func(*pdb){stale}},
		"two budgets select the Pod":             {allowed: 1, second: true},
		"two budgets select an unready Pod":      {allowed: 1, second: true, options: []podOption{unready}},
		"two budgets select a pending Pod":       {second: true, options: []podOption{phase(corev1.PodPending)}},
		"the Pod is pending":                     {options: []podOption{phase(corev1.PodPending)}},
		"the Pod has failed":                     {options: []podOption{phase(corev1.PodFailed)}},
		"the Pod is unready, others are healthy": {options: []podOption{unready}},
		"the Pod is unready, like others":        {options: []podOption{unready}, change: []func(*pdb){poor}},
		"the Pod is unready, but may go always":  {options: []podOption{unready}, change: []func(*pdb){poor, always}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestNode(t)
			pod := s.pod("web", test.options...)
			s.budget("one", "web", test.allowed, test.change...)
			if test.second {
				s.budget("two", "web", test.allowed)
			}
			b := budgets{client: s, pageSize: 1, byNamespace: map[string][]*budget{}}
			matching, err := b.of(t.Context(), pod)
			if err != nil {
				t.Fatal(err)
			}
			foretold := predict(pod, matching)
			err = evict(t.Context(), withoutRetry(t), drainplan.Decision{Pod: pod})
			if granted := err == nil; granted != (foretold.Kind == 0) {
				t.Errorf("foretold %q, the API server answered %v", foretold, err)
			}
		})
	}
}

// withoutRetry returns a client that does not repeat a request with Retry-After.
func withoutRetry(t *testing.T) client.Client {
	t.Helper()
	shared, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(shared)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutRetryAfter{next} })
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type withoutRetryAfter struct{ next http.RoundTripper }

func (w withoutRetryAfter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

func TestDrainNodeEvictsInOrder(t *testing.T) {
	t.Parallel()
	type pods = clusterv1.MachineDrainRulePodSelector
	s := newTestNode(t)
	s.pod("db", labelled("app", "db"))
	s.pod("front", labelled("app", "front"))
	s.pod("batch", labelled("app", "batch"))
	s.pod("debug", labelled(clusterv1.PodDrainLabel, "skip"))
	req := s.request()
	req.Rules = []clusterv1.MachineDrainRule{
		drainRule("1", clusterv1.MachineDrainRuleDrainBehaviorDrain, order(10), forPods(pods{Selector: with("app", "db"), NamespaceSelector: with("team", "a")})),
		drainRule("2", clusterv1.MachineDrainRuleDrainBehaviorDrain, order(-1), forPods(pods{Selector: with("app", "front")})),
		drainRule("3", clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted, forPods(pods{Selector: with("app", "batch")})),
		drainRule("4", clusterv1.MachineDrainRuleDrainBehaviorSkip, forPods(pods{NamespaceSelector: with("team", "b")})),
	}
	d := &Drainer{}

	result := s.pass(d, req)
	s.wantPods("batch db debug front!")
	s.wantMessage(result.Progress,
		"* Pod app/front: being deleted, waiting for the kubelet to end them",
		"* Pods app/batch, app/db: later, by drain order",
	)
	s.pass(d, req)
	s.wantPods("batch db debug front!")
	s.kubelet()

	result = s.pass(d, req)
	s.wantMessage(result.Progress,
		"* Pod app/batch: waiting for completion, no eviction by rule or label",
		"* Pod app/db: later, by drain order",
	)
	s.wantPods("batch db debug")
	s.finish("batch")

	s.pass(d, req)
	s.wantPods("batch db! debug")
	s.kubelet()
	if result := s.pass(d, req); !result.Done {
		t.Errorf("not done: %+v", result)
	}
	s.wantPods("batch debug")
}

func (s *testNode) finish(name string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
	if err := s.Status().Patch(s.Context(), pod, patch); err != nil {
		s.Fatal(err)
	}
}

func TestDrainNodeReadsEachDaemonSetOnce(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	agent := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "owner"},
		Spec: appsv1.DaemonSetSpec{
			Selector: with("app", "web"),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	s.create(agent)
	daemon := ownedBy("apps/v1", "DaemonSet")
	s.pod("agent-1", daemon)
	s.pod("agent-2", daemon)
	s.pod("orphan", daemon, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" })
	s.pod("orphan-of-old", ownedBy("apps/v1beta2", "DaemonSet"), func(p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" })
	s.pod("unknown", ownedBy("apps.kruise.io/v1alpha1", "DaemonSet"))
	s.pod("unknown-gone", ownedBy("apps.example.com/v1", "DaemonSet"), func(p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" })
	req := s.request()
	counted := counting(s)
	req.Client = counted

	result := s.pass(&Drainer{}, req)
	s.wantPods("agent-1 agent-2 orphan! orphan-of-old! unknown unknown-gone")
	for _, r := range result.Removed {
		if diff := cmp.Diff([]string{drainplan.WarningOrphaned}, r.Warnings); diff != "" {
			t.Errorf("warnings about %s (-want +got):\n%s", r.Pod, diff)
		}
	}
	// The unknown kinds have no API here, and are not read where they have one.
	want := map[string]int{"list Pod": 1, "get DaemonSet": 2, "list PodDisruptionBudget": 1, "evict": 2}
	if diff := cmp.Diff(want, counted.counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestDrainNodeEvictsNoPodOfTheSameNameOnAnotherNode(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("db-0")
	req := s.request()
	// Between the list and the eviction, the StatefulSet has moved the Pod.
	req.Client = before(s, "evict", func() {
		s.end(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db-0"}})
		elsewhere := *s
		elsewhere.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name + "-other"}}
		elsewhere.pod("db-0")
	})
	result := s.pass(&Drainer{}, req)
	if result.Done || len(result.Removed) > 0 {
		t.Errorf("evicted a Pod on another Node: %+v", result)
	}
	if result := s.pass(&Drainer{}, s.request()); !result.Done {
		t.Errorf("waits for a Pod on another Node: %+v", result)
	}
}

func TestDrainNodeForcesForTheDeadlineOnly(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.budget("web", "web", 0)
	s.pod("quick", withGrace(10))
	s.pod("slow", withGrace(3600))
	s.pod("late", withGrace(5), labelled("app", "other"))
	req := s.request()
	req.Rules = []clusterv1.MachineDrainRule{
		drainRule("r", clusterv1.MachineDrainRuleDrainBehaviorDrain, order(5), forPods(clusterv1.MachineDrainRulePodSelector{Selector: with("app", "other")})),
	}
	d := &Drainer{}

	s.pass(d, req)
	s.wantPods("late quick slow")

	req.ForceDeadline = new(req.Now.Add(time.Minute))
	result := s.pass(d, req)
	s.wantPods("late quick slow!")
	s.wantGrace("slow", 60)
	want := []Removal{{Pod: types.NamespacedName{Namespace: s.namespace, Name: "slow"}, Forced: true}}
	if diff := cmp.Diff(want, result.Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	req.Now = req.Now.Add(52 * time.Second)
	s.pass(d, req)
	s.wantPods("late quick! slow!")
	s.wantGrace("quick", 8)

	req.Now = req.Now.Add(4 * time.Second)
	s.pass(d, req)
	s.wantPods("late! quick! slow!")
	s.wantGrace("late", 4)

	// The kubelet confirms nothing. The deadline holds all the same.
	req.Now = req.Now.Add(10 * time.Second)
	if result := s.pass(d, req); !result.Done {
		t.Errorf("not done after the deadline: %+v", result)
	}
}

func (s *testNode) wantGrace(name string, seconds int64) {
	s.Helper()
	var pod corev1.Pod
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &pod); err != nil {
		s.Fatal(err)
	}
	if got := *pod.DeletionGracePeriodSeconds; got != seconds {
		s.Errorf("Pod %s was deleted with %d s of grace, want %d s", name, got, seconds)
	}
}

func TestDrainNodeWaitsInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("web")
	if err := s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	result := s.pass(&Drainer{}, s.request())
	s.wantMessage(result.Progress,
		"* Pod app/web: the Namespace is being deleted, waiting for kube-controller-manager to delete the Pods in it")
}

func TestDrainNodeWaitsForAnInvalidRule(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("web")
	req := s.request()
	req.Rules = []clusterv1.MachineDrainRule{drainRule("bad", "Explode")}
	_, err := (&Drainer{}).DrainNode(t.Context(), req)
	var invalid *drainplan.InvalidRuleError
	if !errors.As(err, &invalid) || invalid.Rule != "bad" {
		t.Errorf("got %v, want an InvalidRuleError about %q", err, "bad")
	}
	s.wantPods("web")
}

func TestDrainNodeOnAnUnreachableNode(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	s.pod("web", withGrace(600))
	d, req := &Drainer{}, s.request()
	s.pass(d, req)
	s.wantPods("web!")
	s.wantGrace("web", 1)
	req.Now = req.Now.Add(5 * time.Second)
	if result := s.pass(d, req); !result.Done {
		t.Errorf("waits for a kubelet that is gone: %+v", result)
	}
}

func TestRemainingPods(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("web")
	s.pod("debug", labelled(clusterv1.PodDrainLabel, "skip"))
	s.pod("static", static)
	s.pod("batch", labelled(clusterv1.PodDrainLabel, "wait-completed"), phase(corev1.PodSucceeded))
	s.pod("job", labelled(clusterv1.PodDrainLabel, "wait-completed"))
	pods, err := (&Drainer{}).Remaining(t.Context(), s.request())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, p := range pods.Skipped {
		got["skipped"] = append(got["skipped"], p.Name)
	}
	for _, p := range pods.Others {
		got["others"] = append(got["others"], p.Name)
	}
	want := map[string][]string{"skipped": {"debug", "static"}, "others": {"job", "web"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Pods on the Node (-want +got):\n%s", diff)
	}
}

func TestCordonWritesOnceAndOnlyToThisNode(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	counted := counting(s)
	cached := s.node.DeepCopy()
	if err := Cordon(t.Context(), counted, s.node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cached, s.node); diff != "" {
		t.Errorf("changed the Node it was given:\n%s", diff)
	}
	var node corev1.Node
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(s.node), &node); err != nil {
		t.Fatal(err)
	}
	if !node.Spec.Unschedulable {
		t.Fatal("the Node is not cordoned")
	}
	if err := Cordon(t.Context(), counted, &node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"patch Node": 1}, counted.counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	namesake := s.node.DeepCopy()
	namesake.UID = "another"
	if err := Cordon(t.Context(), s, namesake); err == nil {
		t.Error("cordoned a namesake")
	}
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name + "-gone"}}
	if err := Cordon(t.Context(), s, gone); err != nil {
		t.Errorf("cordoning a Node that is gone: %v", err)
	}
}
