// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/drainplan"
)

// refusals are the Pods whose eviction was tried in the last pass over a Node and did not succeed.
type refusals map[types.UID]bool

func (r refusals) rank(pod *corev1.Pod) int {
	if r[pod.UID] {
		return 1
	}
	return 0
}

// tryLast moves the Pods that were refused in the pass before to the end, so that those which take long to be
// refused cannot use up the time of every pass.
func tryLast(p drainplan.Plan, refused refusals) {
	slices.SortStableFunc(p.Evict, func(a, b drainplan.Decision) int {
		return cmp.Compare(refused.rank(a.Pod), refused.rank(b.Pod))
	})
}
