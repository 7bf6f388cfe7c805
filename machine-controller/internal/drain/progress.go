// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CauseKind is why a Pod is still awaited. The order is that of the message: what needs a human comes first.
type CauseKind int

// The kinds of causes.
const (
	// BudgetMisconfigured: its PodDisruptionBudget can never allow a disruption.
	BudgetMisconfigured CauseKind = iota + 1
	// BudgetOverlap: more than one PodDisruptionBudget selects it, which the eviction API does not serve.
	BudgetOverlap
	// BudgetUncomputed: the disruption controller cannot compute its PodDisruptionBudget.
	BudgetUncomputed
	// Refused: the API server or an admission webhook refused the eviction.
	Refused
	// NamespaceTerminating: its Namespace is being deleted and so will it be, eviction is refused meanwhile.
	NamespaceTerminating
	// BudgetExhausted: its PodDisruptionBudget allows no disruption just now.
	BudgetExhausted
	// BudgetUnobserved: the disruption controller has not yet seen the newest version of its PodDisruptionBudget.
	BudgetUnobserved
	// Completing: it is to finish by itself.
	Completing
	// Terminating: it is being deleted, the kubelet has not confirmed its end.
	Terminating
	// VolumesInTurn: it has volumes, and those of another Pod must be detached first.
	VolumesInTurn
	// NextPass: this pass has done its share.
	NextPass
	// LaterOrder: Pods of a smaller drain order go first.
	LaterOrder
)

// Cause is one reason for which Pods are awaited.
type Cause struct {
	Kind CauseKind
	// Budgets are those that block.
	Budgets []types.NamespacedName
	// Detail adds facts that do not change with every pass.
	Detail string
}

// Group is the Pods that are awaited for one Cause, sorted.
type Group struct {
	Cause
	Pods []types.NamespacedName
}

// Progress is what a drain still waits for, grouped and sorted.
type Progress []Group

// Has reports whether a Pod is awaited for a cause of one of the kinds.
func (p Progress) Has(kinds ...CauseKind) bool {
	return slices.ContainsFunc(p, func(g Group) bool { return slices.Contains(kinds, g.Kind) })
}

// add adds the Pod to the group of its cause. Progress stays sorted, so equal states make equal messages.
func (p *Progress) add(cause Cause, pod *corev1.Pod) {
	i, found := slices.BinarySearchFunc(*p, cause, func(g Group, c Cause) int { return g.compare(c) })
	if !found {
		*p = slices.Insert(*p, i, Group{Cause: cause})
	}
	key := client.ObjectKeyFromObject(pod)
	j, found := slices.BinarySearchFunc((*p)[i].Pods, key, compareKeys)
	if !found {
		(*p)[i].Pods = slices.Insert((*p)[i].Pods, j, key)
	}
}

func (c Cause) compare(o Cause) int {
	return cmp.Or(
		cmp.Compare(c.Kind, o.Kind),
		slices.CompareFunc(c.Budgets, o.Budgets, compareKeys),
		cmp.Compare(c.Detail, o.Detail),
	)
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
