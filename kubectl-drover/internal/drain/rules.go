// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Rules are the MachineDrainRules about one Machine, in the order in which they are applied: by name.
type Rules []rule

type rule struct {
	name     string
	behavior clusterv1.MachineDrainRuleDrainBehavior
	pods     []selectors
}

// selectors select what both select.
type selectors struct{ pod, other labels.Selector }

// RulesFor returns those of the rules of a namespace that are about a Machine.
func RulesFor(m *clusterv1.Machine, cluster map[string]string, all []clusterv1.MachineDrainRule) (Rules, error) {
	var rules Rules
	for i := range all {
		r := &all[i]
		applies := len(r.Spec.Machines) == 0
		for _, each := range r.Spec.Machines {
			both, err := parse(each.Selector, each.ClusterSelector)
			if err != nil {
				return nil, fmt.Errorf("MachineDrainRule %q cannot be applied: %w", r.Name, err)
			}
			applies = applies || both.pod.Matches(labels.Set(m.Labels)) && both.other.Matches(labels.Set(cluster))
		}
		if !applies {
			continue
		}
		parsed := rule{name: r.Name, behavior: r.Spec.Drain.Behavior}
		for _, each := range r.Spec.Pods {
			both, err := parse(each.Selector, each.NamespaceSelector)
			if err != nil {
				return nil, fmt.Errorf("MachineDrainRule %q cannot be applied: %w", r.Name, err)
			}
			parsed.pods = append(parsed.pods, both)
		}
		rules = append(rules, parsed)
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.name, b.name) })
	return rules, nil
}

func parse(first, second *metav1.LabelSelector) (selectors, error) {
	var both selectors
	var err error
	if both.pod, err = selector(first); err != nil {
		return both, err
	}
	both.other, err = selector(second)
	return both, err
}

// selector reads an absent selector as everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// match returns the first rule about a Pod.
func (rs Rules) match(pod *corev1.Pod, namespace labels.Set) (rule, bool) {
	for _, r := range rs {
		if len(r.pods) == 0 {
			return r, true
		}
		for _, s := range r.pods {
			if s.pod.Matches(labels.Set(pod.Labels)) && s.other.Matches(namespace) {
				return r, true
			}
		}
	}
	return rule{}, false
}

func (rs Rules) selectNamespaces() bool {
	return slices.ContainsFunc(rs, func(r rule) bool {
		return slices.ContainsFunc(r.pods, func(s selectors) bool { return !s.other.Empty() })
	})
}
