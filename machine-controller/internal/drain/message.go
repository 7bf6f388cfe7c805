// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/quantity"
)

const (
	maxPods   = 3 // per cause
	maxCauses = 5
)

// Message is for the condition: the same state gives the same message. It is empty if nothing is awaited.
func (p Progress) Message() string {
	if len(p) == 0 {
		return ""
	}
	lines := []string{"Draining the Node waits for:"}
	for _, g := range p[:min(len(p), maxCauses)] {
		lines = append(lines, fmt.Sprintf("* %s: %s", list("Pod", g.Pods), g.Cause))
	}
	others := 0
	for _, g := range p[min(len(p), maxCauses):] {
		others += len(g.Pods)
	}
	if others > 0 {
		lines = append(lines, fmt.Sprintf("* %s for other reasons", quantity.Of(others, "more Pod")))
	}
	return strings.Join(lines, "\n")
}

// String is what is awaited, and from which component where that is known.
func (c Cause) String() string {
	switch c.Kind {
	case BudgetMisconfigured:
		return fmt.Sprintf("%s is misconfigured, it can never allow a disruption: %s", c.budgets(), c.Detail)
	case BudgetOverlap:
		return fmt.Sprintf("%s select the same Pod, eviction works with one only", c.budgets())
	case BudgetUncomputed:
		return fmt.Sprintf("%s cannot be computed, see its condition DisruptionAllowed", c.budgets())
	case BudgetExhausted:
		return fmt.Sprintf("%s allows no disruption now", c.budgets())
	case BudgetUnobserved:
		return fmt.Sprintf("%s has changed and waits for the disruption controller", c.budgets())
	case Refused:
		return "eviction was refused: " + c.Detail
	case NamespaceTerminating:
		return "the Namespace is being deleted, waiting for kube-controller-manager to delete the Pods in it"
	case Completing:
		return "waiting for completion, no eviction by rule or label"
	case Terminating:
		return "being deleted, waiting for the kubelet to end them"
	case VolumesInTurn:
		text := "next when the volumes of the Pod before are detached"
		if c.Detail != "" {
			text += ", still attached: " + c.Detail
		}
		return text
	case NextPass:
		return "next, limited per pass"
	case LaterOrder:
		return "later, by drain order"
	}
	return "unknown cause"
}

func (c Cause) budgets() string {
	if len(c.Budgets) == 0 {
		return "a PodDisruptionBudget"
	}
	return list("PodDisruptionBudget", c.Budgets)
}

// list names the first few: "Pods a/x, a/y, a/z and 4 more".
func list(noun string, keys []types.NamespacedName) string {
	if len(keys) != 1 {
		noun += "s"
	}
	shown := make([]string, 0, maxPods)
	for _, k := range keys[:min(len(keys), maxPods)] {
		shown = append(shown, k.String())
	}
	text := noun + " " + strings.Join(shown, ", ")
	if more := len(keys) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
