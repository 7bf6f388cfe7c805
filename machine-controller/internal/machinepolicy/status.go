// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinepolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety"
)

// owner is something that a policy can select.
type owner struct {
	title  string
	labels map[string]string
}

// maxNames is how many names a message lists.
const maxNames = 5

// setStatus counts what the policy selects, and compares it with the others of its namespace.
func setStatus(policy *policyv1.MachinePolicy, all []safety.Candidate, owners []owner) {
	var selected int32
	var overridden []string
	conflicting := map[string]bool{}
	at := slices.IndexFunc(all, func(p safety.Candidate) bool { return p.Name == policy.Name })
	for _, f := range owners {
		if at < 0 || !all[at].Selects(f.labels) {
			continue
		}
		selected++
		inForce := policy.Name
		for i, p := range all {
			if i == at || conflicting[p.Name] && i > at || !p.Selects(f.labels) {
				continue
			}
			conflicting[p.Name] = true
			if i < at && inForce == policy.Name {
				inForce = p.Name
			}
		}
		if inForce != policy.Name {
			overridden = append(overridden, fmt.Sprintf("%s (%s)", f.title, inForce))
		}
	}
	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.Selected = &selected
	conditions.Set(policy, ready(policy, selected, overridden))
	conditions.Set(policy, conflict(conflicting))
}

func ready(policy *policyv1.MachinePolicy, selected int32, overridden []string) metav1.Condition {
	condition := metav1.Condition{Type: policyv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: policyv1.InForceReason}
	if err := unreadable(policy); err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, policyv1.InvalidReason, err.Error()
		return condition
	}
	switch {
	case selected == 0:
		condition.Reason = policyv1.NothingSelectedReason
		condition.Message = "spec.selector selects no MachineDeployment, and no MachineSet that stands alone"
	case len(overridden) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, policyv1.OverriddenReason
		condition.Message = fmt.Sprintf("An older policy is in force for %s: narrow the selector of one of them", firstNames(overridden))
	}
	return condition
}

// unreadable names what of the spec cannot be used; the API server lets no such thing pass.
func unreadable(policy *policyv1.MachinePolicy) error {
	if policy.Spec.Selector != nil {
		if _, err := policy.Spec.Selector.AsSelector(); err != nil {
			return fmt.Errorf("spec.selector: %w", err)
		}
	}
	_, err := safety.Default().Over(policy)
	return err
}

func conflict(conflicting map[string]bool) metav1.Condition {
	if len(conflicting) == 0 {
		return metav1.Condition{Type: policyv1.ConflictCondition, Status: metav1.ConditionFalse, Reason: policyv1.NoConflictReason}
	}
	return metav1.Condition{
		Type: policyv1.ConflictCondition, Status: metav1.ConditionTrue, Reason: policyv1.SelectedTwiceReason,
		Message: fmt.Sprintf("Some objects are selected by this policy and by %s; the oldest policy is in force for each", firstNames(slices.Sorted(maps.Keys(conflicting)))),
	}
}

// firstNames lists the first few names.
func firstNames(names []string) string {
	slices.Sort(names)
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}
