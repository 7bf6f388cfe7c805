// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"sync"

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

// memory keeps the refusals per Node. It only steers the order of attempts, so losing it does no harm.
type memory struct {
	mu     sync.Mutex
	byNode map[types.UID]refusals
}

// maxMemory bounds what Machines leave behind whose drain was given up.
const maxMemory = 1000

func (m *memory) of(node types.UID) refusals {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byNode[node]
}

func (m *memory) keep(node types.UID, r refusals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(r) == 0 {
		delete(m.byNode, node)
		return
	}
	if m.byNode == nil || len(m.byNode) >= maxMemory {
		m.byNode = map[types.UID]refusals{}
	}
	m.byNode[node] = r
}
