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

// fleet is something that a policy can select.
type fleet struct {
	title  string
	labels map[string]string
}

// told is how many names a message lists.
const told = 5

// setStatus counts what the policy selects, and compares it with the others of its namespace.
func setStatus(policy *policyv1.MachinePolicy, all []safety.Candidate, fleets []fleet) {
	var selected int32
	var lost []string
	rivals := map[string]bool{}
	at := slices.IndexFunc(all, func(p safety.Candidate) bool { return p.Name == policy.Name })
	for _, f := range fleets {
		if at < 0 || !all[at].Selects(f.labels) {
			continue
		}
		selected++
		inForce := policy.Name
		for i, p := range all {
			if i == at || rivals[p.Name] && i > at || !p.Selects(f.labels) {
				continue
			}
			rivals[p.Name] = true
			if i < at && inForce == policy.Name {
				inForce = p.Name
			}
		}
		if inForce != policy.Name {
			lost = append(lost, fmt.Sprintf("%s (%s)", f.title, inForce))
		}
	}
	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.Selected = &selected
	conditions.Set(policy, ready(policy, selected, lost))
	conditions.Set(policy, conflict(rivals))
}

func ready(policy *policyv1.MachinePolicy, selected int32, lost []string) metav1.Condition {
	condition := metav1.Condition{Type: policyv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: policyv1.InForceReason}
	if err := unreadable(policy); err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, policyv1.InvalidReason, err.Error()
		return condition
	}
	switch {
	case selected == 0:
		condition.Reason = policyv1.NothingSelectedReason
		condition.Message = "spec.selector selects no MachineDeployment, and no MachineSet that stands alone"
	case len(lost) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, policyv1.OverriddenReason
		condition.Message = fmt.Sprintf("An older policy is in force for %s: narrow the selector of one of them", some(lost))
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

func conflict(rivals map[string]bool) metav1.Condition {
	if len(rivals) == 0 {
		return metav1.Condition{Type: policyv1.ConflictCondition, Status: metav1.ConditionFalse, Reason: policyv1.NoConflictReason}
	}
	return metav1.Condition{
		Type: policyv1.ConflictCondition, Status: metav1.ConditionTrue, Reason: policyv1.SelectedTwiceReason,
		Message: fmt.Sprintf("Some objects are selected by this policy and by %s; the oldest policy is in force for each", some(slices.Sorted(maps.Keys(rivals)))),
	}
}

// some lists the first few names.
func some(names []string) string {
	slices.Sort(names)
	if len(names) > told {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:told], ", "), len(names)-told)
	}
	return strings.Join(names, ", ")
}
