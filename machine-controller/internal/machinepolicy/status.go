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

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety/policy"
)

// owner is an object that a policy can select.
type owner struct {
	title  string
	labels map[string]string
}

// maxNames is how many names a message has.
const maxNames = 5

// setStatus counts what the policy selects, and compares it with the others of its namespace.
func setStatus(p *droverpolicyv1.MachinePolicy, all []policy.Candidate, owners []owner) {
	var selected int32
	var overridden []string
	conflicting := map[string]bool{}
	at := slices.IndexFunc(all, func(c policy.Candidate) bool { return c.Name == p.Name })
	for _, o := range owners {
		if at < 0 || !all[at].Selects(o.labels) {
			continue
		}
		selected++
		inForce := p.Name
		for i, other := range all {
			if i == at || conflicting[other.Name] && i > at || !other.Selects(o.labels) {
				continue
			}
			conflicting[other.Name] = true
			if i < at && inForce == p.Name {
				inForce = other.Name
			}
		}
		if inForce != p.Name {
			overridden = append(overridden, fmt.Sprintf("%s (%s)", o.title, inForce))
		}
	}
	p.Status.ObservedGeneration = p.Generation
	p.Status.Selected = &selected
	conditions.Set(p, ready(p, selected, overridden))
	conditions.Set(p, conflict(conflicting))
}

func ready(p *droverpolicyv1.MachinePolicy, selected int32, overridden []string) metav1.Condition {
	condition := metav1.Condition{Type: droverpolicyv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.InForceReason}
	if err := invalid(p); err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, droverpolicyv1.InvalidReason, err.Error()
		return condition
	}
	switch {
	case selected == 0:
		condition.Reason = droverpolicyv1.NothingSelectedReason
		condition.Message = "spec.selector selects no MachineDeployment, and no stand-alone MachineSet"
	case len(overridden) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, droverpolicyv1.OverriddenReason
		condition.Message = fmt.Sprintf("An older policy is in force for %s: narrow the selector of one of them", firstNames(overridden))
	}
	return condition
}

// invalid names the part of the spec that cannot be used; the API server admits no such spec.
func invalid(p *droverpolicyv1.MachinePolicy) error {
	if p.Spec.Selector != nil {
		if _, err := p.Spec.Selector.AsSelector(); err != nil {
			return fmt.Errorf("spec.selector: %w", err)
		}
	}
	_, err := policy.Default().Over(p)
	return err
}

func conflict(conflicting map[string]bool) metav1.Condition {
	if len(conflicting) == 0 {
		return metav1.Condition{Type: droverpolicyv1.ConflictCondition, Status: metav1.ConditionFalse, Reason: droverpolicyv1.NoConflictReason}
	}
	return metav1.Condition{
		Type: droverpolicyv1.ConflictCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.SelectedTwiceReason,
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
