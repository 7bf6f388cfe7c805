// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func aBudget(name string, change func(*policyv1.PodDisruptionBudget)) *budget {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, Generation: 3},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 3, ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 2,
		},
	}
	if change != nil {
		change(pdb)
	}
	return &budget{PodDisruptionBudget: pdb}
}

func TestPredict(t *testing.T) {
	t.Parallel()
	type pdb = policyv1.PodDisruptionBudget
	web := []types.NamespacedName{key("web")}
	zero, none, half := intstr.FromInt32(0), intstr.FromString("0%"), intstr.FromString("50%")
	syncFailed := func(b *pdb) {
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 3, Conditions: []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		}}}
	}
	tests := map[string]struct {
		pod    *corev1.Pod
		change func(*pdb)
		want   Cause
	}{
		"allows what the budget allows": {
			pod: aPod("p"), change: func(b *pdb) { b.Status.DisruptionsAllowed = 1 },
		},
		"refuses when no disruption is left": {
			pod: aPod("p"), want: Cause{Kind: BudgetExhausted, Budgets: web},
		},
		"refuses while the newest budget is not observed": {
			pod: aPod("p"), change: func(b *pdb) { b.Generation, b.Status.DisruptionsAllowed = 4, 1 },
			want: Cause{Kind: BudgetUnobserved, Budgets: web},
		},
		"names maxUnavailable 0 as misconfigured": {
			pod: aPod("p"), change: func(b *pdb) { b.Spec.MaxUnavailable = &zero },
			want: Cause{Kind: BudgetMisconfigured, Budgets: web, Detail: "maxUnavailable is 0"},
		},
		"names maxUnavailable 0% as misconfigured": {
			pod: aPod("p"), change: func(b *pdb) { b.Spec.MaxUnavailable = &none },
			want: Cause{Kind: BudgetMisconfigured, Budgets: web, Detail: "maxUnavailable is 0%"},
		},
		"reports a budget that requires all Pods as misconfigured, whatever their health": {
			pod: aPod("p"), change: func(b *pdb) { b.Status.DesiredHealthy, b.Status.CurrentHealthy = 3, 1 },
			want: Cause{Kind: BudgetMisconfigured, Budgets: web, Detail: "it requires 3 of 3 Pods to be healthy"},
		},
		"does not call a budget misconfigured that waits for healthy Pods": {
			pod: aPod("p"), change: func(b *pdb) { b.Spec.MaxUnavailable, b.Status.CurrentHealthy = &half, 1 },
			want: Cause{Kind: BudgetExhausted, Budgets: web},
		},
		"names a budget that cannot be computed": {
			pod: aPod("p"), change: syncFailed, want: Cause{Kind: BudgetUncomputed, Budgets: web},
		},
		"allows a pending Pod":  {pod: aPod("p", phase(corev1.PodPending))},
		"allows a finished Pod": {pod: aPod("p", phase(corev1.PodSucceeded))},
		"allows an unready Pod while enough others are healthy": {
			pod: aPod("p", unready),
		},
		"refuses an unready Pod while too few others are healthy": {
			pod: aPod("p", unready), change: func(b *pdb) { b.Status.CurrentHealthy = 1 },
			want: Cause{Kind: BudgetExhausted, Budgets: web},
		},
		"allows an unready Pod always with the policy AlwaysAllow": {
			pod: aPod("p", unready), change: func(b *pdb) {
				b.Spec.UnhealthyPodEvictionPolicy, b.Status.CurrentHealthy = new(policyv1.AlwaysAllow), 0
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, predict(test.pod, []*budget{aBudget("web", test.change)})); diff != "" {
				t.Errorf("cause (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPredictNamesAllBudgetsThatSelectOnePod(t *testing.T) {
	t.Parallel()
	both := []*budget{aBudget("web", nil), aBudget("all", nil)}
	want := Cause{Kind: BudgetOverlap, Budgets: []types.NamespacedName{key("all"), key("web")}}
	if diff := cmp.Diff(want, predict(aPod("p"), both)); diff != "" {
		t.Errorf("cause (-want +got):\n%s", diff)
	}
	if cause := predict(aPod("p"), nil); cause.Kind != 0 {
		t.Errorf("a Pod that no budget selects is held for %v", cause)
	}
}

func TestCountEvictionCountsLikeTheAPIServer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want int32
	}{
		"counts a healthy Pod":                  {pod: aPod("p"), want: 1},
		"does not count an unready Pod":         {pod: aPod("p", unready), want: 2},
		"does not count a pending Pod":          {pod: aPod("p", phase(corev1.PodPending)), want: 2},
		"does not count a Pod that is finished": {pod: aPod("p", phase(corev1.PodFailed)), want: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := aBudget("web", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 2 })
			countEviction(test.pod, []*budget{b})
			if b.Status.DisruptionsAllowed != test.want {
				t.Errorf("%d disruptions left, want %d", b.Status.DisruptionsAllowed, test.want)
			}
		})
	}
}
