// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func drainRule(name string, behavior clusterv1.MachineDrainRuleDrainBehavior, change ...func(*clusterv1.MachineDrainRuleSpec)) clusterv1.MachineDrainRule {
	r := clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Drain.Behavior = behavior
	for _, c := range change {
		c(&r.Spec)
	}
	return r
}

func order(order int32) func(*clusterv1.MachineDrainRuleSpec) {
	return func(s *clusterv1.MachineDrainRuleSpec) { s.Drain.Order = &order }
}

func forMachines(selectors ...clusterv1.MachineDrainRuleMachineSelector) func(*clusterv1.MachineDrainRuleSpec) {
	return func(s *clusterv1.MachineDrainRuleSpec) { s.Machines = selectors }
}

func forPods(selectors ...clusterv1.MachineDrainRulePodSelector) func(*clusterv1.MachineDrainRuleSpec) {
	return func(s *clusterv1.MachineDrainRuleSpec) { s.Pods = selectors }
}

func with(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func unreadable() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
}

func manyValues(n int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: slices.Repeat([]string{"b"}, n)}}}
}

func TestRulesForPicksThoseOfTheMachineByName(t *testing.T) {
	t.Parallel()
	const drain, skip = clusterv1.MachineDrainRuleDrainBehaviorDrain, clusterv1.MachineDrainRuleDrainBehaviorSkip
	type machine = clusterv1.MachineDrainRuleMachineSelector
	type pod = clusterv1.MachineDrainRulePodSelector
	tests := map[string]struct {
		rules   []clusterv1.MachineDrainRule
		want    []string
		invalid map[string]string // rule: field
	}{
		"takes a rule without selectors, in the order of names": {
			rules: []clusterv1.MachineDrainRule{drainRule("b", drain), drainRule("a", skip)},
			want:  []string{"a", "b"},
		},
		"reads as many labels and values as a namespace may have, and names the rule that exceeds it": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("c", drain, forPods(pod{Selector: manyValues(maxTerms)})), drainRule("a", drain, forPods(pod{Selector: manyValues(maxTerms - 3)})),
			},
			want:    []string{"a"},
			invalid: map[string]string{"c": "spec"},
		},
		"requires both parts of one selector to match": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("both", drain, forMachines(machine{Selector: with("os", "linux"), ClusterSelector: with("stage", "prod")})),
				drainRule("one", drain, forMachines(machine{Selector: with("os", "linux"), ClusterSelector: with("stage", "dev")})),
			},
			want: []string{"both"},
		},
		"takes a rule of which any selector matches": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("a", drain, forMachines(machine{Selector: with("os", "windows")}, machine{ClusterSelector: with("stage", "prod")})),
			},
			want: []string{"a"},
		},
		"takes an empty selector for everything": {
			rules: []clusterv1.MachineDrainRule{drainRule("a", drain, forMachines(machine{Selector: &metav1.LabelSelector{}}))},
			want:  []string{"a"},
		},
		"names an unreadable Pod selector of a rule about the Machine": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("bad", drain, forPods(pod{}, pod{Selector: unreadable()})),
				drainRule("good", drain),
			},
			want: []string{"good"}, invalid: map[string]string{"bad": "spec.pods[1].selector"},
		},
		"ignores an unreadable Pod selector of a rule about other Machines": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("bad", drain, forMachines(machine{Selector: with("os", "windows")}), forPods(pod{NamespaceSelector: unreadable()})),
			},
		},
		"names an unreadable Machine selector that decides": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("bad", drain, forMachines(machine{Selector: with("os", "linux"), ClusterSelector: unreadable()})),
			},
			invalid: map[string]string{"bad": "spec.machines[0].clusterSelector"},
		},
		"ignores an unreadable Machine selector whose other part does not match": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("bad", drain, forMachines(machine{Selector: unreadable(), ClusterSelector: with("stage", "dev")})),
			},
		},
		"ignores an unreadable Machine selector when another one matches": {
			rules: []clusterv1.MachineDrainRule{
				drainRule("fair", drain, forMachines(machine{Selector: unreadable()}, machine{Selector: with("os", "linux")})),
			},
			want: []string{"fair"},
		},
		"names an unknown behavior": {
			rules:   []clusterv1.MachineDrainRule{drainRule("bad", "Explode")},
			invalid: map[string]string{"bad": "spec.drain.behavior"},
		},
	}
	subject := RuleInput{MachineLabels: map[string]string{"os": "linux"}, ClusterLabels: map[string]string{"stage": "prod"}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, err := RulesFor(subject, test.rules)
			var got []string
			for _, r := range rules {
				got = append(got, r.name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.invalid, invalidRules(err)); diff != "" {
				t.Errorf("invalid rules (-want +got):\n%s", diff)
			}
		})
	}
}

func invalidRules(err error) map[string]string {
	var found map[string]string
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil {
		return nil
	}
	for _, e := range joined.Unwrap() {
		var invalid *InvalidRuleError
		if errors.As(e, &invalid) {
			if found == nil {
				found = map[string]string{}
			}
			found[invalid.Rule] = invalid.Field
		}
	}
	return found
}

func TestRulesMatchTheFirstByName(t *testing.T) {
	t.Parallel()
	type pod = clusterv1.MachineDrainRulePodSelector
	const drain, skip = clusterv1.MachineDrainRuleDrainBehaviorDrain, clusterv1.MachineDrainRuleDrainBehaviorSkip
	rules, err := RulesFor(RuleInput{}, []clusterv1.MachineDrainRule{
		drainRule("30-rest", drain, order(3)),
		drainRule("10-db", drain, order(1), forPods(pod{Selector: with("app", "db"), NamespaceSelector: with("team", "a")})),
		drainRule("20-any", skip, forPods(pod{Selector: with("app", "cache")}, pod{NamespaceSelector: with("team", "b")})),
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		app, team, want string
	}{
		"takes both parts of a selector":              {app: "db", team: "a", want: "10-db"},
		"goes on if one part does not match":          {app: "db", team: "c", want: "30-rest"},
		"takes the first of several matching rules":   {app: "cache", team: "c", want: "20-any"},
		"takes any of several selectors":              {app: "web", team: "b", want: "20-any"},
		"takes a rule without selectors for all Pods": {app: "web", team: "c", want: "30-rest"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := rules.match(aPod("p", labelled("app", test.app)), labels.Set{"team": test.team})
			if !found || got.name != test.want {
				t.Errorf("got rule %q, want %q", got.name, test.want)
			}
		})
	}
	if !rules.selectNamespaces() {
		t.Error("the rules do not select by labels of Namespaces")
	}
	if rules[2:].selectNamespaces() {
		t.Error("a rule without selectors selects by labels of Namespaces")
	}
}
