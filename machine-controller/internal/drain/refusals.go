// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/drainplan"
)

// refusals are the Pods whose eviction was tried in the last pass over a Node and did not succeed.
type refusals map[types.UID]bool

// The workload cluster chooses how many Pods there are, and their UIDs; those of an API server have 36 bytes.
const (
	maxRefusals   = 500
	maxUID        = 64
	rememberedFor = time.Hour // a pass comes within a minute
)

// add adds a Pod.
func (r refusals) add(pod *corev1.Pod) {
	if len(r) < maxRefusals && len(pod.UID) <= maxUID {
		r[types.UID(strings.Clone(string(pod.UID)))] = true
	}
}

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
