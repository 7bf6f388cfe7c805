// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// random is the source of a test, with a fixed seed.
func random(seed byte) *rand.Rand { return rand.New(rand.NewChaCha8([32]byte{seed})) }

// randomDecisions are of every action and of few orders.
func randomDecisions(r *rand.Rand) []Decision {
	actions := []Action{Skip, Evict, Delete, AwaitTermination, AwaitCompletion}
	decisions := make([]Decision, r.IntN(9))
	for i := range decisions {
		d := Decision{Pod: aPod(fmt.Sprintf("p%d", i)), Action: actions[r.IntN(len(actions))]}
		if d.Action != AwaitCompletion { // its order is 0
			d.Order = int32(r.IntN(4) - 2)
		}
		if r.IntN(3) == 0 {
			withPriority(int32(r.IntN(3) - 1))(d.Pod)
		}
		decisions[i] = d
	}
	return decisions
}

// TestEachPodIsInOneGroupOfAPlan has random decisions: no Pod is lost or done twice, and nothing of a greater order begins while
// something of a smaller one is left.
func TestEachPodIsInOneGroupOfAPlan(t *testing.T) {
	t.Parallel()
	r := random(1)
	for range 2000 {
		decisions := randomDecisions(r)
		p := Make(decisions)
		groups := map[string][]Decision{"delete": p.Delete, "evict": p.Evict, "terminating": p.Terminating, "completing": p.Completing, "later": p.Later, "skipped": p.Skipped}
		in := map[string]string{}
		for name, group := range groups {
			for _, d := range group {
				if before, twice := in[d.Pod.Name]; twice {
					t.Fatalf("%s is in %s and %s of %+v", d.Pod.Name, before, name, decisions)
				}
				in[d.Pod.Name] = name
			}
		}
		busy := 0
		for _, d := range decisions {
			if in[d.Pod.Name] == "" {
				t.Fatalf("%s is in no group of %+v", d.Pod.Name, decisions)
			}
			if (d.Action == Skip) != (in[d.Pod.Name] == "skipped") || (d.Action == Delete) != (in[d.Pod.Name] == "delete") {
				t.Fatalf("%s, with the action %s, is in %s", d.Pod.Name, d.Action, in[d.Pod.Name])
			}
			if d.Action != Skip {
				busy++
			}
			if in[d.Pod.Name] != "evict" && in[d.Pod.Name] != "completing" {
				continue
			}
			for _, other := range decisions {
				if other.Action != Skip && other.Order < d.Order {
					t.Fatalf("%s of order %d begins while %s of order %d is left", d.Pod.Name, d.Order, other.Pod.Name, other.Order)
				}
			}
		}
		if p.Done() != (busy == 0) {
			t.Fatalf("done is %t with %d Pods", p.Done(), busy)
		}
		if !slices.IsSortedFunc(p.Evict, byPriority) || !slices.IsSortedFunc(p.Delete, byPriority) {
			t.Fatalf("a critical Pod is before another in %+v", p)
		}
	}
}

// TestDrainEndsInTheOrderOfItsRules carries out plan after plan: each pass begins something or waits for what will end, and Pods
// end in the order of their rules.
func TestDrainEndsInTheOrderOfItsRules(t *testing.T) {
	t.Parallel()
	r := random(2)
	for range 300 {
		left := randomDecisions(r)
		last, passes := int32(-100), 0
		for p := Make(left); !p.Done(); p = Make(left) {
			if passes++; passes > 20 {
				t.Fatalf("the drain of %+v does not end", left)
			}
			ended := slices.Concat(p.Delete, p.Evict, p.Terminating, p.Completing)
			if len(ended) == 0 {
				t.Fatalf("nothing of %+v may begin or end", left)
			}
			for _, d := range slices.Concat(p.Evict, p.Completing) {
				if d.Order < last {
					t.Fatalf("order %d follows order %d", d.Order, last)
				}
				last = max(last, d.Order)
			}
			left = slices.DeleteFunc(left, func(d Decision) bool {
				return slices.ContainsFunc(ended, func(e Decision) bool { return e.Pod.Name == d.Pod.Name })
			})
		}
	}
}

// randomPods have what a decision depends on, in every combination that is drawn.
func randomPods(r *rand.Rand) []*corev1.Pod {
	options := []podOption{
		unmanaged, static, withEmptyDir, phase(corev1.PodSucceeded), phase(corev1.PodFailed), ownedBy("apps/v1", "DaemonSet"),
		labelled(clusterv1.PodDrainLabel, "skip"), labelled(clusterv1.PodDrainLabel, "wait-completed"), labelled("kind", "late"),
		withGrace(0), withGrace(5), withGrace(600), terminating(noon.Add(-time.Minute), 5), terminating(noon, 600),
	}
	pods := make([]*corev1.Pod, r.IntN(8))
	for i := range pods {
		pods[i] = aPod(fmt.Sprintf("p%d", i))
		for range r.IntN(4) {
			options[r.IntN(len(options))](pods[i])
		}
	}
	return pods
}

func randomInput(t *testing.T, r *rand.Rand) Input {
	t.Helper()
	rules, err := RulesFor(RuleInput{}, []clusterv1.MachineDrainRule{
		drainRule("late", clusterv1.MachineDrainRuleDrainBehaviorDrain, order(3), forPods(clusterv1.MachineDrainRulePodSelector{Selector: with("kind", "late")})),
	})
	if err != nil {
		t.Fatal(err)
	}
	v := Input{Now: noon, Unreachable: r.IntN(2) == 0, Rules: rules}
	if r.IntN(2) == 0 {
		v.ForceDeadline = new(noon.Add(time.Duration(r.IntN(1200)-300) * time.Second))
	}
	return v
}

// TestDecisionsDoNotDependOnTheOrderOfPods, nor do they change the Pods: another pass decides the same.
func TestDecisionsDoNotDependOnTheOrderOfPods(t *testing.T) {
	t.Parallel()
	r := random(3)
	for range 500 {
		pods, v := randomPods(r), randomInput(t, r)
		before := make([]*corev1.Pod, 0, len(pods))
		for _, pod := range pods {
			before = append(before, pod.DeepCopy())
		}
		first := Classify(pods, v)
		shuffled := slices.Clone(pods)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(first, Classify(shuffled, v)); diff != "" {
			t.Fatalf("in another order (-first +again):\n%s", diff)
		}
		if diff := cmp.Diff(before, pods); diff != "" {
			t.Fatalf("the Pods were changed:\n%s", diff)
		}
	}
}

// TestForceIsDueWhenItSays compares the time that ForceDue returns with the decision a moment before it and at it. The grace period
// of a forced deletion is at least a second, at most the Pod's own, and never reaches past the deadline.
func TestForceIsDueWhenItSays(t *testing.T) {
	t.Parallel()
	r := random(4)
	for range 1000 {
		pods, v := randomPods(r), randomInput(t, r)
		for _, pod := range pods {
			due, known := v.ForceDue(pod)
			if known != (v.ForceDeadline != nil && pod.DeletionTimestamp == nil) {
				t.Fatalf("a time is known: %t", known)
			}
			if !known {
				continue
			}
			late := v.gracePeriod(pod) / 2 // half of the Pod's own time is left
			for offset, want := range map[time.Duration]bool{-time.Nanosecond: false, 0: true, late: true, time.Hour: true} {
				v := v
				v.Now = due.Add(offset)
				grace, forced := v.forced(pod)
				if forced != want {
					t.Fatalf("%s after it is due, force is %t", offset, forced)
				}
				own := int64(v.gracePeriod(pod) / time.Second)
				if grace < 1 || grace > max(own, 1) {
					t.Fatalf("the grace period is %d, and that of the Pod is %d", grace, own)
				}
				if left := max(v.ForceDeadline.Sub(v.Now), time.Second); time.Duration(grace)*time.Second > left {
					t.Fatalf("the grace period is %d s, and %s are left", grace, left)
				}
			}
		}
	}
}

// TestNoDeadlineDeletesNothing, and a static Pod, or one that is skipped, is not deleted by any.
func TestNoDeadlineDeletesNothing(t *testing.T) {
	t.Parallel()
	r := random(5)
	for range 500 {
		v := randomInput(t, r)
		for _, d := range Classify(randomPods(r), v) {
			_, mirror := d.Pod.Annotations[corev1.MirrorPodAnnotationKey]
			skip := d.Pod.Labels[clusterv1.PodDrainLabel] == "skip"
			if d.Action == Delete && (v.ForceDeadline == nil || mirror || skip && d.Reason != ReasonForceDeadline) {
				t.Fatalf("deletes %+v", d)
			}
			if (d.Action == Delete) != (d.Reason == ReasonForceDeadline) || d.Action == Delete && d.GraceSeconds == nil {
				t.Fatalf("got %+v", d)
			}
		}
	}
}

// TestRulesDoNotDependOnTheOrderOfTheList has rules that overlap, of which the first by name counts.
func TestRulesDoNotDependOnTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	r := random(6)
	var all []clusterv1.MachineDrainRule
	for i := range 6 {
		behavior := []clusterv1.MachineDrainRuleDrainBehavior{clusterv1.MachineDrainRuleDrainBehaviorSkip, clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted}[i%2]
		all = append(all, drainRule(fmt.Sprintf("r%d", i), behavior, forPods(clusterv1.MachineDrainRulePodSelector{Selector: with("app", []string{"web", "db"}[i/3])})))
	}
	broken := drainRule("broken", clusterv1.MachineDrainRuleDrainBehaviorSkip, forPods(clusterv1.MachineDrainRulePodSelector{Selector: unreadable()}))
	worse := drainRule("a-broken", clusterv1.MachineDrainRuleDrainBehaviorSkip, forPods(clusterv1.MachineDrainRulePodSelector{NamespaceSelector: unreadable()}))
	var first string
	for i := range 20 {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		rules, err := RulesFor(RuleInput{}, all)
		if err != nil {
			t.Fatal(err)
		}
		for app, want := range map[string]string{"web": "r0", "db": "r3"} {
			d := Classify([]*corev1.Pod{aPod("p", labelled("app", app))}, Input{Now: noon, Rules: rules})
			if d[0].Rule != want {
				t.Fatalf("the rule for %s is %q, want %q", app, d[0].Rule, want)
			}
		}
		list := append(slices.Clone(all), broken, worse)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		_, err = RulesFor(RuleInput{}, list)
		if err == nil || i > 0 && err.Error() != first {
			t.Fatalf("the error is %v, and was %q", err, first)
		}
		first = err.Error()
	}
}

// TestLongTerminatingNeedsAStoppedKubelet has Pods whose deletion is over for each number of seconds.
func TestLongTerminatingNeedsAStoppedKubelet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ended       time.Duration
		unreachable bool
		deadline    *time.Time
		want        Action
	}{
		{time.Hour, false, nil, AwaitTermination},
		{time.Hour, true, nil, Skip},
		{2 * time.Second, true, nil, Skip},
		{1999 * time.Millisecond, true, nil, AwaitTermination},
		{-time.Hour, true, nil, AwaitTermination},
		{time.Hour, false, new(noon.Add(-time.Second)), Skip},
		{time.Hour, false, new(noon), AwaitTermination},
	} {
		pod := aPod("p")
		pod.DeletionTimestamp = &metav1.Time{Time: noon.Add(-test.ended)}
		d := Classify([]*corev1.Pod{pod}, Input{Now: noon, Unreachable: test.unreachable, ForceDeadline: test.deadline})
		if d[0].Action != test.want || (d[0].Reason == ReasonLongTerminating) != (test.want == Skip) {
			t.Errorf("%+v: got %+v", test, d[0])
		}
	}
}
