// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package flight remembers the tasks that were started for virtual machines and not seen to end, so that
// none is started twice and one that failed is not repeated at once. It is the memory of one process; what
// must outlive that stands in the virtual machines themselves.
package flight

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

const (
	// first and longest bound the pause after a failure, which doubles each time.
	first, longest = 5 * time.Second, 5 * time.Minute
)

// Book has one entry per key.
type Book[T any] struct {
	Now func() time.Time

	mu      sync.Mutex
	entries map[string]Flight[T]
}

// Flight is a task that was started, or what is known of the last one.
type Flight[T any] struct {
	// Task is nil once the task ended.
	Task *types.ManagedObjectReference
	// Err is why the last task failed; nil when none did.
	Err error
	// What is what the task was for.
	What T

	pause time.Duration
	until time.Time
}

// Get returns what is known under a key.
func (b *Book[T]) Get(key string) (Flight[T], bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.entries[key]
	return known, ok
}

// All returns every entry by its key.
func (b *Book[T]) All() map[string]Flight[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]Flight[T], len(b.entries))
	for key, known := range b.entries {
		all[key] = known
	}
	return all
}

// Begin notes a task that was started.
func (b *Book[T]) Begin(key string, task types.ManagedObjectReference, what T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.entries[key]
	known.Task, known.What = &task, what
	b.put(key, known)
}

// Fail notes that the task failed, or could not be started, and how long to leave it.
func (b *Book[T]) Fail(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.entries[key]
	known.Task, known.Err = nil, err
	known.pause = min(max(2*known.pause, first), longest)
	known.until = b.Now().Add(known.pause)
	b.put(key, known)
}

// End forgets everything under a key.
func (b *Book[T]) End(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, key)
}

// Paused reports whether a failure is too fresh to try again.
func (b *Book[T]) Paused(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Now().Before(b.entries[key].until)
}

func (b *Book[T]) put(key string, known Flight[T]) {
	if b.entries == nil {
		b.entries = map[string]Flight[T]{}
	}
	b.entries[key] = known
}
