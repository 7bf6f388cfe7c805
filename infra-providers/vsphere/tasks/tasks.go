// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tasks records the tasks of vCenter that this process started for virtual machines and that have not ended, so
// that none is started twice and one that failed is not repeated at once. What must outlive the process is written into
// the virtual machines themselves.
package tasks

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
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
	// What the task was started for.
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

// Start records a task that was started.
func (t *Tracker[T]) Start(key string, task types.ManagedObjectReference, what T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	known.Task, known.What = &task, what
	t.put(key, known)
}

// Finish records that a task ended, with the cause if it failed. It does nothing once another task was started.
func (t *Tracker[T]) Finish(key string, task types.ManagedObjectReference, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.entries[key]
	switch {
	case !ok || known.Task == nil || *known.Task != task:
	case err == nil:
		delete(t.entries, key)
	default:
		t.fail(key, err)
	}
}

// Fail records that a task failed or could not be started, and that it is too early to try again.
func (t *Tracker[T]) Fail(key string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail(key, err)
}

func (t *Tracker[T]) fail(key string, err error) {
	known := t.entries[key]
	known.Task, known.Err = nil, driver.Brief(err)
	known.pause = min(max(2*known.pause, first), longest)
	known.until = t.Now().Add(known.pause)
	t.put(key, known)
}

// End drops everything under a key.
func (t *Tracker[T]) End(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}

// Paused reports whether the last failure is too recent to try again.
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
