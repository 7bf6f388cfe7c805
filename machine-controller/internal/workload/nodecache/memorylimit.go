// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// ErrFull is the error of a Node beyond the memory limit.
var ErrFull = errors.New("the memory limit for Nodes is reached")

// overhead is about what a Node takes in memory beside its strings, in bytes.
const overhead = 1 << 10

// size is about how many bytes a slim Node takes in memory.
func size(node *corev1.Node) int64 { return int64(node.Size()) + overhead }

// MemoryLimit bounds how much memory the Nodes of all workload clusters of a namespace take together:
// their number and size is the choice of the owners of the workload clusters.
type MemoryLimit struct {
	limit int64

	mu    sync.Mutex
	taken map[string]int64
}

// NewMemoryLimit returns a limit of so many bytes for each namespace; zero is no limit.
func NewMemoryLimit(limit int64) *MemoryLimit {
	return &MemoryLimit{limit: limit, taken: map[string]int64{}}
}

// change takes bytes for a namespace, or gives them back where the number is negative. It
// reports false, and takes nothing, where there are not so many.
func (l *MemoryLimit) change(namespace string, bytes int64) bool {
	if l == nil || l.limit == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.taken[namespace] + bytes
	if bytes > 0 && taken > l.limit {
		return false
	}
	if l.taken[namespace] = taken; taken <= 0 {
		delete(l.taken, namespace)
	}
	return true
}
