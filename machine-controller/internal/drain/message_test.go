// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func progressOf(adds ...func(*Progress)) Progress {
	var p Progress
	for _, add := range adds {
		add(&p)
	}
	return p
}

func awaits(cause Cause, pods ...string) func(*Progress) {
	return func(p *Progress) {
		for _, pod := range pods {
			p.add(cause, aPod(pod))
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	web := []types.NamespacedName{key("web")}
	tests := map[string]struct {
		progress Progress
		want     string
	}{
		"is empty when nothing is awaited": {},
		"names at most three Pods": {
			progress: progressOf(awaits(Cause{Kind: BudgetExhausted, Budgets: web}, "d", "b", "a", "c", "e")),
			want: "Draining the Node waits for:\n" +
				"* Pods app/a, app/b, app/c and 2 more: PodDisruptionBudget app/web allows no disruption now",
		},
		"puts first what needs a human": {
			progress: progressOf(
				awaits(Cause{Kind: LaterOrder}, "e"),
				awaits(Cause{Kind: Terminating}, "d"),
				awaits(Cause{Kind: Refused, Detail: "no answer in time"}, "c"),
				awaits(Cause{Kind: BudgetOverlap, Budgets: []types.NamespacedName{key("all"), key("web")}}, "b"),
				awaits(Cause{Kind: BudgetMisconfigured, Budgets: web, Detail: "maxUnavailable is 0"}, "a"),
			),
			want: "Draining the Node waits for:\n" +
				"* Pod app/a: PodDisruptionBudget app/web is misconfigured, it can never allow a disruption: maxUnavailable is 0\n" +
				"* Pod app/b: PodDisruptionBudgets app/all, app/web select the same Pod, eviction works with one only\n" +
				"* Pod app/c: eviction was refused: no answer in time\n" +
				"* Pod app/d: being deleted, waiting for the kubelet to end them\n" +
				"* Pod app/e: later, by drain order",
		},
		"counts the Pods beyond five causes": {
			progress: progressOf(
				awaits(Cause{Kind: BudgetUncomputed, Budgets: web}, "a"),
				awaits(Cause{Kind: NamespaceTerminating}, "b"),
				awaits(Cause{Kind: BudgetUnobserved, Budgets: web}, "c"),
				awaits(Cause{Kind: BudgetExhausted}, "d"),
				awaits(Cause{Kind: Completing}, "e"),
				awaits(Cause{Kind: VolumesInTurn, Detail: "PersistentVolumeClaim app/data"}, "f", "g"),
				awaits(Cause{Kind: NextPass}, "h"),
			),
			want: "Draining the Node waits for:\n" +
				"* Pod app/a: PodDisruptionBudget app/web cannot be computed, see its condition DisruptionAllowed\n" +
				"* Pod app/b: the Namespace is being deleted, waiting for kube-controller-manager to delete the Pods in it\n" +
				"* Pod app/d: a PodDisruptionBudget allows no disruption now\n" +
				"* Pod app/c: PodDisruptionBudget app/web has changed and waits for the disruption controller\n" +
				"* Pod app/e: waiting for completion, no eviction by rule or label\n" +
				"* 3 more Pods for other reasons",
		},
		"names the volumes that are still attached": {
			progress: progressOf(awaits(Cause{Kind: VolumesInTurn, Detail: "PersistentVolumeClaim app/data"}, "f"), awaits(Cause{Kind: NextPass}, "h")),
			want: "Draining the Node waits for:\n" +
				"* Pod app/f: next when the volumes of the Pod before are detached, still attached: PersistentVolumeClaim app/data\n" +
				"* Pod app/h: next, limited per pass",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.progress.Message()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessageDoesNotDependOnTheOrderInWhichPodsAreFound(t *testing.T) {
	t.Parallel()
	type one struct {
		cause Cause
		pod   *corev1.Pod
	}
	var all []one
	for i := range 6 {
		budgets := []types.NamespacedName{key(fmt.Sprintf("budget-%d", i%3))}
		all = append(all,
			one{Cause{Kind: BudgetExhausted, Budgets: budgets}, aPod(fmt.Sprintf("a-%d", i))},
			one{Cause{Kind: Terminating}, aPod(fmt.Sprintf("b-%d", i))},
		)
	}
	var forward, backward Progress
	for _, o := range all {
		forward.add(o.cause, o.pod)
	}
	slices.Reverse(all)
	for _, o := range all {
		backward.add(o.cause, o.pod)
	}
	if diff := cmp.Diff(forward.Message(), backward.Message()); diff != "" {
		t.Errorf("message depends on the order:\n%s", diff)
	}
}
