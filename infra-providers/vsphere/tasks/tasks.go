// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tasks remembers the tasks that were started for virtual machines and not seen to end, so that
// none is started twice and one that failed is not repeated at once. It is the memory of one process; what
// must outlive that stands in the virtual machines themselves.
package tasks

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

const (
	// first and longest bound the pause after a failure, which doubles each time.
	first, longest = 5 * time.Second, 5 * time.Minute
)

// Tracker has one entry per key.
type Tracker[T any] struct {
	Now func() time.Time

	mu      sync.Mutex
	entries map[string]Task[T]
}

// Task is a task that was started, or what is known of the last one.
type Task[T any] struct {
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
func (t *Tracker[T]) Get(key string) (Task[T], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.entries[key]
	return known, ok
}

// All returns every entry by its key.
func (t *Tracker[T]) All() map[string]Task[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]Task[T], len(t.entries))
	for key, known := range t.entries {
		all[key] = known
	}
	return all
}

// Start notes a task that was started.
func (t *Tracker[T]) Start(key string, task types.ManagedObjectReference, what T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	known.Task, known.What = &task, what
	t.put(key, known)
}

// Fail notes that the task failed, or could not be started, and how long to leave it.
func (t *Tracker[T]) Fail(key string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	known.Task, known.Err = nil, err
	known.pause = min(max(2*known.pause, first), longest)
	known.until = t.Now().Add(known.pause)
	t.put(key, known)
}

// End forgets everything under a key.
func (t *Tracker[T]) End(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}

// Paused reports whether a failure is too fresh to try again.
func (t *Tracker[T]) Paused(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Now().Before(t.entries[key].until)
}

func (t *Tracker[T]) put(key string, known Task[T]) {
	if t.entries == nil {
		t.entries = map[string]Task[T]{}
	}
	t.entries[key] = known
}
