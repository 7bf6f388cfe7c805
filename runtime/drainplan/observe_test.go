// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// answers are those of an API server, by kind, namespace and name: labels, or an error. What is not there does not exist.
type answers struct {
	client.Reader
	found map[string]any
	asked []string
}

// Get implements [client.Reader].
func (a *answers) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	name := into.GetObjectKind().GroupVersionKind().Kind + " " + key.String()
	a.asked = append(a.asked, name)
	switch answer := a.found[name].(type) {
	case error:
		return answer
	case map[string]string:
		into.SetLabels(answer)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, key.Name)
}

func ofDaemonSet(name string) podOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, Controller: new(true)}}
	}
}

func inNamespace(name string) podOption {
	return func(p *corev1.Pod) { p.Namespace = name }
}

// TestEachDaemonSetIsReadOnce has Pods of one that exists and of one that is gone, in two namespaces, and Pods for which none is read.
func TestEachDaemonSetIsReadOnce(t *testing.T) {
	t.Parallel()
	a := &answers{found: map[string]any{"DaemonSet app/there": map[string]string{}}}
	var v Input
	pods := []*corev1.Pod{
		aPod("a", ofDaemonSet("there")), aPod("b", ofDaemonSet("there")), aPod("c", ofDaemonSet("gone")), aPod("d", ofDaemonSet("gone")),
		aPod("e", ofDaemonSet("there"), inNamespace("other")), aPod("finished", ofDaemonSet("gone"), phase(corev1.PodSucceeded)),
		aPod("of-another-project", ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")), aPod("of-no-version", ownedBy("a/b/c", "DaemonSet")), aPod("managed"), aPod("bare", unmanaged),
	}
	if err := v.Observe(t.Context(), a, pods); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DaemonSet app/there", "DaemonSet app/gone", "DaemonSet other/there"}, a.asked); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[types.UID]bool{"uid-c": true, "uid-d": true, "uid-e": true}, v.Orphaned); diff != "" {
		t.Errorf("Pods whose DaemonSet is gone (-want +got):\n%s", diff)
	}
	// Another look forgets what the first one has found.
	if err := v.Observe(t.Context(), a, pods[:1]); err != nil || len(v.Orphaned) != 0 {
		t.Errorf("again: %v, error %v", v.Orphaned, err)
	}
}

// TestNamespacesAreReadForTheRulesThatNeedThem has rules with and without a selector of Namespaces, and one Namespace that is gone.
func TestNamespacesAreReadForTheRulesThatNeedThem(t *testing.T) {
	t.Parallel()
	selecting := func(selector *metav1.LabelSelector) Rules {
		rules, err := RulesFor(RuleInput{}, []clusterv1.MachineDrainRule{
			drainRule("a", clusterv1.MachineDrainRuleDrainBehaviorDrain, forPods(clusterv1.MachineDrainRulePodSelector{Selector: with("app", "db")})),
			drainRule("b", clusterv1.MachineDrainRuleDrainBehaviorSkip, forPods(clusterv1.MachineDrainRulePodSelector{NamespaceSelector: selector})),
		})
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	pods := []*corev1.Pod{aPod("a"), aPod("b"), aPod("c", inNamespace("gone"))}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		asked    int
		skipped  string
	}{
		"needs none":                   {nil, 0, "a b c"},
		"needs none of any":            {&metav1.LabelSelector{}, 0, "a b c"},
		"reads each once":              {with("stage", "prod"), 2, "a b"},
		"knows the name of one gone":   {with(corev1.LabelMetadataName, "gone"), 2, "c"},
		"selects none by other labels": {with("stage", "test"), 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &answers{found: map[string]any{"Namespace /app": map[string]string{"stage": "prod", corev1.LabelMetadataName: "app"}}}
			v := Input{Now: noon, Rules: selecting(test.selector)}
			if err := v.Observe(t.Context(), a, pods); err != nil || len(a.asked) != test.asked {
				t.Errorf("asked for %q, error %v", a.asked, err)
			}
			var skipped []string
			for _, d := range Classify(pods, v) {
				if d.Action == Skip {
					skipped = append(skipped, d.Pod.Name)
				}
			}
			if got := strings.Join(skipped, " "); got != test.skipped {
				t.Errorf("skips %q, want %q", got, test.skipped)
			}
		})
	}
}

// TestObserveNamesWhatItCannotRead has an API server that refuses, whose answer is not taken for an absence.
func TestObserveNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no rule"))
	rules, err := RulesFor(RuleInput{}, []clusterv1.MachineDrainRule{
		drainRule("b", clusterv1.MachineDrainRuleDrainBehaviorSkip, forPods(clusterv1.MachineDrainRulePodSelector{NamespaceSelector: with("a", "b")})),
	})
	if err != nil {
		t.Fatal(err)
	}
	for refused, want := range map[string]string{
		"DaemonSet app/d": `getting DaemonSet "d" of Pod "p" in Namespace "app": `,
		"Namespace /app":  `getting Namespace "app": `,
	} {
		a := &answers{found: map[string]any{"DaemonSet app/d": map[string]string{}, "Namespace /app": map[string]string{}}}
		a.found[refused] = refusal
		v := Input{Rules: rules}
		if err := v.Observe(t.Context(), a, []*corev1.Pod{aPod("p", ofDaemonSet("d"))}); !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v", refused, err)
		}
	}
}

// TestUnreachableIsWhatTheConditionSays has a kubelet that reports a problem, which is no silence.
func TestUnreachableIsWhatTheConditionSays(t *testing.T) {
	t.Parallel()
	node := func(conditions ...corev1.NodeCondition) *corev1.Node {
		n := &corev1.Node{}
		n.Status.Conditions = conditions
		return n
	}
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"is one that does not report":    {node(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}), true},
		"is none that reports a problem": {node(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}), false},
		"is none that is ready":          {node(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}), false},
		"is none that is new":            {node(), false},
		"is none by another condition":   {node(corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}), false},
	} {
		if got := Unreachable(test.node); got != test.want {
			t.Errorf("%s: unreachable is %t", name, got)
		}
	}
	if got := (Input{}).namespaceLabels("x"); !cmp.Equal(got, labels.Set{corev1.LabelMetadataName: "x"}) {
		t.Errorf("the labels of an unknown Namespace are %v", got)
	}
}
