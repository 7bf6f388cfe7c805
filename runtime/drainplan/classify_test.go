// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	const (
		drain    = clusterv1.MachineDrainRuleDrainBehaviorDrain
		skip     = clusterv1.MachineDrainRuleDrainBehaviorSkip
		complete = clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted
	)
	type pods = clusterv1.MachineDrainRulePodSelector
	daemon := ownedBy("apps/v1", "DaemonSet")
	tests := map[string]struct {
		pod   *corev1.Pod
		view  Input
		rules []clusterv1.MachineDrainRule
		want  Decision
	}{
		"evicts a Pod of a controller": {
			pod: aPod("p"), want: Decision{Action: Evict},
		},
		"evicts an unmanaged Pod with emptyDir and warns of both": {
			pod:  aPod("p", unmanaged, withEmptyDir),
			want: Decision{Action: Evict, Warnings: []string{WarningEmptyDir, WarningUnmanaged}},
		},
		"evicts a finished Pod without a warning": {
			pod: aPod("p", unmanaged, withEmptyDir, phase(corev1.PodFailed)), want: Decision{Action: Evict},
		},
		"waits for a Pod that is being deleted": {
			pod: aPod("p", terminating(noon, 30)), want: Decision{Action: AwaitTermination},
		},
		"waits for one that should have ended long ago, for the kubelet may be slow": {
			pod: aPod("p", terminating(noon.Add(-time.Hour), 30)), want: Decision{Action: AwaitTermination},
		},
		"skips a Pod of a DaemonSet": {
			pod: aPod("p", daemon), want: Decision{Action: Skip, Reason: ReasonDaemonSet},
		},
		"skips a Pod of another API group's DaemonSet": {
			pod: aPod("p", ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")), want: Decision{Action: Skip, Reason: ReasonDaemonSet},
		},
		"evicts a finished Pod of a DaemonSet": {
			pod: aPod("p", daemon, phase(corev1.PodSucceeded)), want: Decision{Action: Evict},
		},
		"evicts a Pod whose DaemonSet is gone and warns": {
			pod: aPod("p", daemon), view: Input{Orphaned: map[types.UID]bool{"uid-p": true}},
			want: Decision{Action: Evict, Warnings: []string{WarningOrphaned}},
		},
		"skips a static Pod, even a finished one": {
			pod: aPod("p", static, phase(corev1.PodFailed)), want: Decision{Action: Skip, Reason: ReasonStatic},
		},
		"skips a DaemonSet Pod before it applies the rules": {
			pod: aPod("p", daemon), rules: []clusterv1.MachineDrainRule{drainRule("r", drain)},
			want: Decision{Action: Skip, Reason: ReasonDaemonSet},
		},
		"follows the label skip": {
			pod: aPod("p", labelled(clusterv1.PodDrainLabel, "Skip")), want: Decision{Action: Skip, Reason: ReasonLabel},
		},
		"follows the label wait-completed": {
			pod:  aPod("p", labelled(clusterv1.PodDrainLabel, "wait-completed")),
			want: Decision{Action: AwaitCompletion, Reason: ReasonLabel},
		},
		"prefers the label to a rule": {
			pod: aPod("p", labelled(clusterv1.PodDrainLabel, "skip")), rules: []clusterv1.MachineDrainRule{drainRule("r", complete)},
			want: Decision{Action: Skip, Reason: ReasonLabel},
		},
		"takes an unknown label for none": {
			pod: aPod("p", labelled(clusterv1.PodDrainLabel, "later")), rules: []clusterv1.MachineDrainRule{drainRule("r", skip)},
			want: Decision{Action: Skip, Reason: ReasonRule, Rule: "r"},
		},
		"takes the order from the rule": {
			pod: aPod("p"), rules: []clusterv1.MachineDrainRule{drainRule("r", drain, order(-7))},
			want: Decision{Action: Evict, Reason: ReasonRule, Rule: "r", Order: -7},
		},
		"accepts order for behavior Drain only": {
			pod: aPod("p"), rules: []clusterv1.MachineDrainRule{drainRule("r", complete, order(5))},
			want: Decision{Action: AwaitCompletion, Reason: ReasonRule, Rule: "r"},
		},
		"no longer waits for a Pod that has completed": {
			pod: aPod("p", phase(corev1.PodSucceeded)), rules: []clusterv1.MachineDrainRule{drainRule("r", complete)},
			want: Decision{Action: Skip, Reason: ReasonCompleted, Rule: "r"},
		},
		"waits for termination of a Pod to complete that was deleted": {
			pod: aPod("p", terminating(noon, 30)), rules: []clusterv1.MachineDrainRule{drainRule("r", complete)},
			want: Decision{Action: AwaitTermination, Reason: ReasonRule, Rule: "r"},
		},
		"selects Namespaces by their labels": {
			pod: aPod("p"), rules: []clusterv1.MachineDrainRule{drainRule("r", skip, forPods(pods{NamespaceSelector: with("team", "a")}))},
			view: Input{NamespaceLabels: map[string]labels.Set{"app": {"team": "a"}}},
			want: Decision{Action: Skip, Reason: ReasonRule, Rule: "r"},
		},
		"matches the name of a Namespace that is gone": {
			pod: aPod("p"), rules: []clusterv1.MachineDrainRule{
				drainRule("r", skip, forPods(pods{NamespaceSelector: with(corev1.LabelMetadataName, "app")})),
			},
			want: Decision{Action: Skip, Reason: ReasonRule, Rule: "r"},
		},
		"evicts from an unreachable Node with one second of grace": {
			pod: aPod("p"), view: Input{Unreachable: true}, want: Decision{Action: Evict, GraceSeconds: new(int64(1))},
		},
		"waits for a Pod whose deletion on an unreachable Node is just due": {
			pod: aPod("p", terminating(noon.Add(-2*time.Second), 1)), view: Input{Unreachable: true},
			want: Decision{Action: AwaitTermination},
		},
		"gives up a Pod whose deletion on an unreachable Node was due more than a second ago": {
			pod: aPod("p", terminating(noon.Add(-3*time.Second), 1)), view: Input{Unreachable: true},
			want: Decision{Action: Skip, Reason: ReasonLongTerminating},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := test.view
			view.Now = noon
			var err error
			if view.Rules, err = RulesFor(RuleInput{}, test.rules); err != nil {
				t.Fatal(err)
			}
			test.want.Pod = test.pod
			if diff := cmp.Diff([]Decision{test.want}, Classify([]*corev1.Pod{test.pod}, view)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClassifyForADeadline(t *testing.T) {
	t.Parallel()
	waiting := labelled(clusterv1.PodDrainLabel, "wait-completed")
	tests := map[string]struct {
		pod   *corev1.Pod
		left  time.Duration // until the deadline
		want  Action
		grace int64
	}{
		"evicts while the grace period fits":                   {pod: aPod("p", withGrace(60)), left: 61 * time.Second, want: Evict},
		"deletes when the grace period just fits":              {pod: aPod("p", withGrace(60)), left: time.Minute, want: Delete, grace: 60},
		"takes thirty seconds for the default":                 {pod: aPod("p"), left: 30 * time.Second, want: Delete, grace: 30},
		"clips a grace period that is longer than what's left": {pod: aPod("p", withGrace(3600)), left: 90 * time.Second, want: Delete, grace: 90},
		"leaves one second when none is left":                  {pod: aPod("p"), left: 100 * time.Millisecond, want: Delete, grace: 1},
		"never deletes with no grace at all":                   {pod: aPod("p", withGrace(0)), left: -time.Hour, want: Delete, grace: 1},
		"waits for completion while there is time":             {pod: aPod("p", waiting), left: time.Minute, want: AwaitCompletion},
		"deletes what was to complete":                         {pod: aPod("p", waiting), left: 20 * time.Second, want: Delete, grace: 20},
		"leaves a skipped Pod alone":                           {pod: aPod("p", labelled(clusterv1.PodDrainLabel, "skip")), left: -time.Hour, want: Skip},
		"waits for a Pod that ends in time":                    {pod: aPod("p", terminating(noon, 30)), left: time.Minute, want: AwaitTermination},
		"shortens a deletion that would end too late":          {pod: aPod("p", terminating(noon, 600)), left: time.Minute, want: Delete, grace: 60},
		"does not shorten it twice":                            {pod: aPod("p", terminating(noon, 60)), left: time.Minute, want: AwaitTermination},
		"waits a moment for Pods deleted at the deadline":      {pod: aPod("p", terminating(noon, 1)), left: -time.Second, want: AwaitTermination},
		"gives up those that never end":                        {pod: aPod("p", terminating(noon.Add(-time.Minute), 1)), left: -time.Second, want: Skip},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deadline := noon.Add(test.left)
			got := Classify([]*corev1.Pod{test.pod}, Input{Now: noon, ForceDeadline: &deadline})[0]
			if got.Action != test.want {
				t.Fatalf("got %s, want %s", got.Action, test.want)
			}
			if test.want == Delete && *got.GraceSeconds != test.grace {
				t.Errorf("got a grace period of %d s, want %d s", *got.GraceSeconds, test.grace)
			}
		})
	}
}
