// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/kubectl-drover/internal/object/objecttest"
	"drover.io/runtime/drainplan"
)

// evicts answers each eviction with an error by the name of its Pod, and permits the others.
func evicts(refused map[string]error) interceptor.Funcs {
	return interceptor.Funcs{SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
		return refused[o.GetName()]
	}}
}

// rule is a MachineDrainRule for the Pods with a label.
func rule(name, label string, behavior clusterv1.MachineDrainRuleDrainBehavior, order int32) clusterv1.MachineDrainRule {
	r := clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Drain.Behavior = behavior
	if order != 0 {
		r.Spec.Drain.Order = new(order)
	}
	r.Spec.Pods = []clusterv1.MachineDrainRulePodSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": label}}}}
	return r
}

// TestPlanFollowsTheRules has a Pod for each behavior, of which the worst comes first: what is blocked, then what the drain waits
// for, what it evicts, and what stays.
func TestPlanFollowsTheRules(t *testing.T) {
	t.Parallel()
	labelled := func(name, kind string) *corev1.Pod {
		return pod(name, func(p *corev1.Pod) { p.Labels = map[string]string{"kind": kind} })
	}
	budget := errors.New("the budget permits none")
	workload := objecttest.Reader(t, evicts(map[string]error{"z-blocked": budget}), node("True"),
		labelled("a-stays", "skip"), labelled("b-evicted", ""), labelled("c-waits", "wait"), labelled("d-later", "late"), labelled("z-blocked", ""))
	rules := []clusterv1.MachineDrainRule{
		rule("keep", "skip", clusterv1.MachineDrainRuleDrainBehaviorSkip, 0),
		rule("finish", "wait", clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted, 0),
		rule("last", "late", clusterv1.MachineDrainRuleDrainBehaviorDrain, 9),
	}
	plan, err := Plan(t.Context(), Request{Workload: workload, Node: "node", Now: noon, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{
		{"shop", "z-blocked", Blocked, 0, "the budget permits none"},
		{"shop", "c-waits", Waits, 0, "until it has finished, by MachineDrainRule finish"},
		{"shop", "b-evicted", Evicted, 0, ""},
		{"shop", "d-later", Evicted, 9, ""},
		{"shop", "a-stays", Stays, 0, "by MachineDrainRule keep"},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestRulesAreThoseOfTheMachine has a rule that selects Machines and Clusters by their labels.
func TestRulesAreThoseOfTheMachine(t *testing.T) {
	t.Parallel()
	selecting := rule("keep", "skip", clusterv1.MachineDrainRuleDrainBehaviorSkip, 0)
	selecting.Spec.Machines = []clusterv1.MachineDrainRuleMachineSelector{{
		Selector:        &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}},
		ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}},
	}}
	skipped := pod("p", func(p *corev1.Pod) { p.Labels = map[string]string{"kind": "skip"} })
	for name, test := range map[string]struct {
		machine, cluster map[string]string
		want             Effect
	}{
		"holds for both":                {map[string]string{"pool": "web"}, map[string]string{"stage": "prod"}, Stays},
		"does not hold for one alone":   {map[string]string{"pool": "web"}, map[string]string{"stage": "test"}, Evicted},
		"does not hold for the Cluster": {nil, map[string]string{"stage": "prod"}, Evicted},
		"does not hold without labels":  {nil, nil, Evicted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workload := objecttest.Reader(t, evicts(nil), node("True"), skipped.DeepCopy())
			subject := drainplan.RuleInput{MachineLabels: test.machine, ClusterLabels: test.cluster}
			plan, err := Plan(t.Context(), Request{Workload: workload, Node: "node", Now: noon, Subject: subject, Rules: []clusterv1.MachineDrainRule{selecting}})
			if err != nil || len(plan) != 1 || plan[0].Effect != test.want {
				t.Errorf("got %+v, error %v", plan, err)
			}
		})
	}
}

// TestPlanIsWholeOrAnError has a rule that nobody can follow, and a workload cluster that does not say what a Pod depends on.
func TestPlanIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	invalid := rule("broken", "x", clusterv1.MachineDrainRuleDrainBehaviorSkip, 0)
	invalid.Spec.Pods[0].Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	_, err := Plan(t.Context(), Request{Workload: objecttest.Reader(t, evicts(nil), node("True"), pod("p", nil)), Node: "node", Rules: []clusterv1.MachineDrainRule{invalid}})
	if _, is := errors.AsType[*drainplan.InvalidRuleError](err); !is || !strings.Contains(err.Error(), "broken") {
		t.Errorf("an invalid rule: error %v", err)
	}
	funcs := evicts(nil)
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if key.Name == "d" {
			return apierrors.NewServiceUnavailable("etcd")
		}
		return c.Get(ctx, key, o, options...)
	}
	daemon := pod("daemon", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	if plan, err := Plan(t.Context(), Request{Workload: objecttest.Reader(t, funcs, node("True"), daemon), Node: "node"}); !apierrors.IsServiceUnavailable(err) || plan != nil {
		t.Errorf("a DaemonSet that cannot be read: %+v, error %v", plan, err)
	}
}

// TestCausesOfARefusal has errors with and without the details of an API server.
func TestCausesOfARefusal(t *testing.T) {
	t.Parallel()
	plain := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no rule"))
	bare := &apierrors.StatusError{ErrStatus: metav1.Status{Message: "refused."}}
	several := &apierrors.StatusError{ErrStatus: metav1.Status{Message: "Cannot evict pod.", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "a"}, {Message: "b"}}}}}
	for want, err := range map[string]error{
		`pods "p" is forbidden: no rule`: plain,
		"refused":                        bare,
		"Cannot evict pod: a: b":         several,
		"a webhook is away":              errors.New("a webhook is away."),
	} {
		if got := causes(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
