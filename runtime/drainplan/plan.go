// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Plan is what one pass may do and what it waits for.
type Plan struct {
	// Delete cannot wait any longer, whatever its order.
	Delete []Decision
	// Evict is the group of the smallest order, the least important Pod first.
	Evict []Decision
	// Terminating and Completing are waited for.
	Terminating, Completing []Decision
	// Later belongs to greater orders.
	Later []Decision
	// Skipped is left alone.
	Skipped []Decision
}

// Make sorts the decisions into the groups of one pass. A group begins when nothing of a smaller order is
// left on the Node; Pods awaited to complete have order 0.
func Make(decisions []Decision) Plan {
	current := int32(math.MaxInt32)
	for _, d := range decisions {
		if d.Action != Skip {
			current = min(current, d.Order)
		}
	}
	var p Plan
	for _, d := range decisions {
		switch {
		case d.Action == Skip:
			p.Skipped = append(p.Skipped, d)
		case d.Action == Delete:
			p.Delete = append(p.Delete, d)
		case d.Action == AwaitTermination:
			p.Terminating = append(p.Terminating, d)
		case d.Order > current:
			p.Later = append(p.Later, d)
		case d.Action == AwaitCompletion:
			p.Completing = append(p.Completing, d)
		default:
			p.Evict = append(p.Evict, d)
		}
	}
	slices.SortStableFunc(p.Evict, byPriority)
	slices.SortStableFunc(p.Delete, byPriority)
	return p
}

// Done reports whether nothing is left to evict, delete or wait for.
func (p Plan) Done() bool {
	return len(p.Delete)+len(p.Evict)+len(p.Terminating)+len(p.Completing)+len(p.Later) == 0
}

// byPriority puts critical Pods last; they often serve the others until these are gone.
func byPriority(a, b Decision) int {
	return cmp.Or(cmp.Compare(priority(a.Pod), priority(b.Pod)), compareNames(a.Pod, b.Pod))
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
