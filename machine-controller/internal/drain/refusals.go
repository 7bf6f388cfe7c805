// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// refusals are the Pods whose eviction was tried in the last pass over a Node and did not succeed.
type refusals map[types.UID]bool

func (r refusals) rank(pod *corev1.Pod) int {
	if r[pod.UID] {
		return 1
	}
	return 0
}
