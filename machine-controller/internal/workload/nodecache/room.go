// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// ErrFull is the error of a Node for which there is no room.
var ErrFull = errors.New("there is no room for more Nodes")

// overhead is about what a Node takes in memory beside its strings, in bytes.
const overhead = 1 << 10

// size is about how many bytes a slim Node takes in memory.
func size(node *corev1.Node) int64 { return int64(node.Size()) + overhead }

// Room bounds how much memory the Nodes of all workload clusters of a namespace take together:
// how many there are, and how large, is the choice of the owners of the workload clusters.
type Room struct {
	limit int64

	mu    sync.Mutex
	taken map[string]int64
}

// NewRoom returns room for so many bytes for each namespace; zero is no limit.
func NewRoom(limit int64) *Room { return &Room{limit: limit, taken: map[string]int64{}} }

// change takes bytes for a namespace, or gives them back where the number is negative. It
// reports false, and takes nothing, where there are not so many.
func (r *Room) change(namespace string, bytes int64) bool {
	if r == nil || r.limit == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.taken[namespace] + bytes
	if bytes > 0 && taken > r.limit {
		return false
	}
	if r.taken[namespace] = taken; taken <= 0 {
		delete(r.taken, namespace)
	}
	return true
}
