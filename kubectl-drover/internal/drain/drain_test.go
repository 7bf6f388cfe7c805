// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name)}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
	p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
	if change != nil {
		change(p)
	}
	return p
}

func node(ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

// TestAnswersToAnEviction has what an API server answers to the dry run of an eviction.
func TestAnswersToAnEviction(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no new content"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	budget := apierrors.NewTooManyRequests("Cannot evict pod.", 10)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "the budget web needs 2"}}
	for name, test := range map[string]struct {
		answer error
		want   Pod
	}{
		"evicts":                             {nil, Pod{Effect: Evicted}},
		"finds the Pod gone":                 {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p"), Pod{Effect: Stays, Why: "it has ended meanwhile"}},
		"waits for the end of the Namespace": {terminating, Pod{Effect: Waits, Why: "its Namespace is being deleted"}},
		"is blocked by a budget":             {budget, Pod{Effect: Blocked, Why: "Cannot evict pod: the budget web needs 2"}},
		"is blocked by a webhook":            {errors.New("admission webhook denied the request."), Pod{Effect: Blocked, Why: "admission webhook denied the request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evictions := 0
			workload := objecttest.Reader(t, interceptor.Funcs{
				SubResourceCreate: func(_ context.Context, _ client.Client, resource string, o, sub client.Object, options ...client.SubResourceCreateOption) error {
					evictions++
					given := &client.SubResourceCreateOptions{}
					given.ApplyOptions(options)
					eviction, is := sub.(*policyv1.Eviction)
					if !is || resource != "eviction" || o.GetName() != "p" || !cmp.Equal(given.DryRun, []string{"All"}) ||
						!cmp.Equal(eviction.DeleteOptions.DryRun, []string{"All"}) || *eviction.DeleteOptions.Preconditions.UID != "uid-of-p" {
						t.Errorf("%s of %s: %+v with %+v", resource, o.GetName(), sub, given)
					}
					return test.answer
				},
			}, node("True"), pod("p", nil))
			plan, err := Plan(t.Context(), Request{Workload: workload, Node: "node", Now: noon})
			test.want.Namespace, test.want.Name = "shop", "p"
			if diff := cmp.Diff([]Pod{test.want}, plan); diff != "" || err != nil || evictions != 1 {
				t.Errorf("%d evictions, error %v, plan (-want +got):\n%s", evictions, err, diff)
			}
		})
	}
}

// TestPodsThatAreNotEvicted has them on a Node that reports, and on one that does not.
func TestPodsThatAreNotEvicted(t *testing.T) {
	t.Parallel()
	pods := []client.Object{
		pod("a-finished", func(p *corev1.Pod) {
			p.Labels, p.Status.Phase = map[string]string{clusterv1.PodDrainLabel: "wait-completed"}, corev1.PodSucceeded
		}),
		pod("b-static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("c-ending", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(noon.Add(-time.Hour))), []string{"a/b"}
		}),
		pod("d-elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "other" }),
	}
	for status, want := range map[corev1.ConditionStatus][]Pod{
		corev1.ConditionTrue: {
			{"shop", "c-ending", Waits, 0, "it is being deleted already"},
			{"shop", "a-finished", Stays, 0, "it has finished"},
			{"shop", "b-static", Stays, 0, "it is static"},
		},
		corev1.ConditionUnknown: {
			{"shop", "a-finished", Stays, 0, "it has finished"},
			{"shop", "b-static", Stays, 0, "it is static"},
			{"shop", "c-ending", Stays, 0, "it is being deleted, and the kubelet of the Node does not report its end"},
		},
	} {
		workload := objecttest.Reader(t, interceptor.Funcs{SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			t.Errorf("the eviction of %s was asked", o.GetName())
			return nil
		}}, append(pods, node(status))...)
		plan, err := Plan(t.Context(), Request{Workload: workload, Node: "node", Now: noon})
		if diff := cmp.Diff(want, plan); diff != "" || err != nil {
			t.Errorf("%s: error %v, plan (-want +got):\n%s", status, err, diff)
		}
	}
}

// TestPlanNeedsTheNodeAndItsPods has a workload cluster that lacks the Node, or refuses to list Pods.
func TestPlanNeedsTheNodeAndItsPods(t *testing.T) {
	t.Parallel()
	if _, err := Plan(t.Context(), Request{Workload: objecttest.Reader(t, interceptor.Funcs{}), Node: "node"}); !object.IsNotFound(err) {
		t.Errorf("without the Node: %v", err)
	}
	refusing := objecttest.Reader(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	}}, node("True"))
	if plan, err := Plan(t.Context(), Request{Workload: refusing, Node: "node"}); !object.IsForbidden(err) || plan != nil {
		t.Errorf("without Pods: %v, error %v", plan, err)
	}
}

func TestPodString(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Pod{
		"blocked  n/p: why (order -3)": {"n", "p", Blocked, -3, "why"},
		"evicted  n/p":                 {"n", "p", Evicted, 0, ""},
		"stays    n/p (order 2)":       {"n", "p", Stays, 2, ""},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPodsOfANodeMayBeTooMany for a caller that has a limit.
func TestPodsOfANodeMayBeTooMany(t *testing.T) {
	t.Parallel()
	n := node(corev1.ConditionTrue)
	workload := objecttest.Reader(t, interceptor.Funcs{}, n, pod("a", nil), pod("b", nil))
	for limit, want := range map[int]int{0: 2, 1: 0, 2: 2} {
		decisions, err := Decide(t.Context(), Request{Workload: workload, Node: "node", MaxPods: limit, Now: noon}, n)
		if len(decisions) != want || (err == nil) != (want > 0) {
			t.Errorf("at most %d: got %d, error %v", limit, len(decisions), err)
		}
	}
}
