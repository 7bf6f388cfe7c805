// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testNode is one Node and one Namespace of the test on the shared API server. No kubelet and no controllers run:
// the test acts as both.
type testNode struct {
	*testing.T
	client.WithWatch
	namespace string
	node      *corev1.Node
}

func newTestNode(t *testing.T) *testNode {
	t.Helper()
	s := &testNode{T: t, WithWatch: server.Client(t)}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "drain-", Labels: map[string]string{"team": "a"}}}
	s.create(ns)
	s.namespace = ns.Name
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	s.create(s.node)
	return s
}

func (s *testNode) create(obj client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// pod creates a Pod on the Node of the test and reports it running and ready unless an option changes that.
func (s *testNode) pod(name string, options ...podOption) *corev1.Pod {
	s.Helper()
	pod := aPod(name, options...)
	pod.UID = ""
	if pod.Namespace == "app" {
		pod.Namespace = s.namespace
	}
	for i := range pod.OwnerReferences {
		pod.OwnerReferences[i].UID = "1"
	}
	status := pod.Status
	pod.Spec.NodeName = s.node.Name
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	s.create(pod)
	pod.Status = status
	if err := s.Status().Update(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
	return pod
}

// budget creates a PodDisruptionBudget for the app and reports it as the disruption controller would.
func (s *testNode) budget(name, app string, allowed int32, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	s.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: with("app", app), MaxUnavailable: new(intstr.FromInt32(1)),
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: 3, CurrentHealthy: 2, DesiredHealthy: 2, DisruptionsAllowed: allowed,
		},
	}
	for _, c := range change {
		c(pdb)
	}
	status := pdb.Status
	s.create(pdb)
	pdb.Status = status
	if err := s.Status().Update(s.Context(), pdb); err != nil {
		s.Fatal(err)
	}
	return pdb
}

func (s *testNode) request() Request {
	return Request{Client: s, Machine: "machine-of-" + s.node.UID, Node: s.node, Now: time.Now()}
}

func (s *testNode) pass(d *Drainer, req Request) Result {
	s.Helper()
	result, err := d.DrainNode(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	return result
}

// pods of the Node: "name" for running ones, "name!" for those being deleted.
func (s *testNode) pods() string {
	s.Helper()
	var list corev1.PodList
	if err := s.List(s.Context(), &list, client.MatchingFields{"spec.nodeName": s.node.Name}); err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		mark := ""
		if p.DeletionTimestamp != nil {
			mark = "!"
		}
		names = append(names, p.Name+mark)
	}
	return strings.Join(names, " ")
}

// kubelet confirms the end of all Pods of the Node that are being deleted.
func (s *testNode) kubelet() {
	s.Helper()
	var list corev1.PodList
	if err := s.List(s.Context(), &list, client.MatchingFields{"spec.nodeName": s.node.Name}); err != nil {
		s.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil {
			s.end(s.Context(), &p)
		}
	}
}

func (s *testNode) end(ctx context.Context, pod *corev1.Pod) {
	s.Helper()
	if err := s.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
}

func (s *testNode) wantPods(want string) {
	s.Helper()
	if got := s.pods(); got != want {
		s.Errorf("Pods on the Node: %q, want %q", got, want)
	}
}

// wantMessage compares without the name of the Namespace, which differs with every run.
func (s *testNode) wantMessage(p Progress, lines ...string) {
	s.Helper()
	want := strings.Join(append([]string{"Draining the Node waits for:"}, lines...), "\n")
	if len(lines) == 0 {
		want = ""
	}
	if got := strings.ReplaceAll(p.Message(), s.namespace, "app"); got != want {
		s.Errorf("message:\n%s\nwant:\n%s", got, want)
	}
}
