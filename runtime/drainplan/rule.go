// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// InvalidRuleError means that a MachineDrainRule that selects this Machine, or may select it, is not valid. Other
// Machines are not affected. The drain waits, because the rule may protect a Pod.
type InvalidRuleError struct {
	Rule  string
	Field string
	Err   error
}

// Error names the rule, the field and the correction.
func (e *InvalidRuleError) Error() string {
	return fmt.Sprintf("MachineDrainRule %q cannot be applied: %s: %v; correct or delete the rule", e.Rule, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *InvalidRuleError) Unwrap() error { return e.Err }

// RuleInput is what a MachineDrainRule may select a Machine by.
type RuleInput struct {
	MachineLabels map[string]string
	ClusterLabels map[string]string
}

// Rules are the MachineDrainRules about one Machine, in the order in which they are applied: by name.
type Rules []rule

type rule struct {
	name     string
	behavior clusterv1.MachineDrainRuleDrainBehavior
	order    int32
	pods     []podSelector
}

// podSelector selects what both its parts select; labels.Everything selects all.
type podSelector struct {
	pod, namespace labels.Selector
}

// maxTerms is how many parts all rules of a namespace may have together: rules, their entries for machines and pods, and the
// labels and values of selectors. Each drain reads all of them in each pass.
const maxTerms = 20_000

// RulesFor picks the rules about the subject out of those of its namespace. The error joins one
// InvalidRuleError per rule that is, or may be, about the subject and cannot be read. Of rules that have more than maxTerms
// together, the first by name that exceeds it is one of these, whatever it is about.
func RulesFor(subject RuleInput, all []clusterv1.MachineDrainRule) (Rules, error) {
	var rules Rules
	var errs []error
	left := maxTerms
	for _, each := range byName(all) {
		if left -= terms(&each.Spec); left < 0 {
			err := fmt.Errorf("this rule and those with names before it have more than %d entries, labels and values together", maxTerms)
			errs = append(errs, invalid(each, field.NewPath("spec"), err))
			break
		}
		applies, err := appliesToMachine(subject, each)
		if err == nil && !applies {
			continue
		}
		if err == nil {
			var r rule
			if r, err = parse(each); err == nil {
				rules = append(rules, r)
				continue
			}
		}
		errs = append(errs, err)
	}
	return rules, errors.Join(errs...)
}

func byName(all []clusterv1.MachineDrainRule) []*clusterv1.MachineDrainRule {
	sorted := make([]*clusterv1.MachineDrainRule, 0, len(all))
	for i := range all {
		sorted = append(sorted, &all[i])
	}
	slices.SortFunc(sorted, func(a, b *clusterv1.MachineDrainRule) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// terms counts the parts of a rule.
func terms(spec *clusterv1.MachineDrainRuleSpec) int {
	n := 1 + len(spec.Machines) + len(spec.Pods)
	count := func(selector *metav1.LabelSelector) {
		if selector == nil {
			return
		}
		n += len(selector.MatchLabels)
		for _, expression := range selector.MatchExpressions {
			n += 1 + len(expression.Values)
		}
	}
	for _, m := range spec.Machines {
		count(m.Selector)
		count(m.ClusterSelector)
	}
	for _, p := range spec.Pods {
		count(p.Selector)
		count(p.NamespaceSelector)
	}
	return n
}

// appliesToMachine is an error only where the part that cannot be read decides.
func appliesToMachine(subject RuleInput, r *clusterv1.MachineDrainRule) (bool, error) {
	if len(r.Spec.Machines) == 0 {
		return true, nil
	}
	var undecided error
	for i, m := range r.Spec.Machines {
		path := field.NewPath("spec", "machines").Index(i)
		machine, machineErr := selector(m.Selector)
		cluster, clusterErr := selector(m.ClusterSelector)
		switch {
		case machineErr == nil && !machine.Matches(labels.Set(subject.MachineLabels)):
		case clusterErr == nil && !cluster.Matches(labels.Set(subject.ClusterLabels)):
		case machineErr != nil:
			undecided = cmp.Or(undecided, invalid(r, path.Child("selector"), machineErr))
		case clusterErr != nil:
			undecided = cmp.Or(undecided, invalid(r, path.Child("clusterSelector"), clusterErr))
		default:
			return true, nil
		}
	}
	return false, undecided
}

func parse(r *clusterv1.MachineDrainRule) (rule, error) {
	parsed := rule{name: r.Name, behavior: r.Spec.Drain.Behavior}
	switch r.Spec.Drain.Behavior {
	case clusterv1.MachineDrainRuleDrainBehaviorDrain:
		if r.Spec.Drain.Order != nil {
			parsed.order = *r.Spec.Drain.Order
		}
	case clusterv1.MachineDrainRuleDrainBehaviorSkip, clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted:
	default:
		err := fmt.Errorf("unknown behavior %q, want Drain, Skip or WaitCompleted", r.Spec.Drain.Behavior)
		return rule{}, invalid(r, field.NewPath("spec", "drain", "behavior"), err)
	}
	for i, p := range r.Spec.Pods {
		path := field.NewPath("spec", "pods").Index(i)
		pod, err := selector(p.Selector)
		if err != nil {
			return rule{}, invalid(r, path.Child("selector"), err)
		}
		namespace, err := selector(p.NamespaceSelector)
		if err != nil {
			return rule{}, invalid(r, path.Child("namespaceSelector"), err)
		}
		parsed.pods = append(parsed.pods, podSelector{pod: pod, namespace: namespace})
	}
	return parsed, nil
}

// match returns the first rule about the Pod.
func (rs Rules) match(pod *corev1.Pod, namespace labels.Set) (rule, bool) {
	for _, r := range rs {
		if len(r.pods) == 0 {
			return r, true
		}
		for _, s := range r.pods {
			if s.pod.Matches(labels.Set(pod.Labels)) && s.namespace.Matches(namespace) {
				return r, true
			}
		}
	}
	return rule{}, false
}

// selectNamespaces reports whether a rule selects by the labels of Namespaces.
func (rs Rules) selectNamespaces() bool {
	return slices.ContainsFunc(rs, func(r rule) bool {
		return slices.ContainsFunc(r.pods, func(s podSelector) bool { return !s.namespace.Empty() })
	})
}

// selector reads an absent selector as "everything", unlike metav1.LabelSelectorAsSelector.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

func invalid(r *clusterv1.MachineDrainRule, path *field.Path, err error) error {
	return &InvalidRuleError{Rule: r.Name, Field: path.String(), Err: err}
}
