// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package expiring holds what a process keeps in memory for a while: [Map] has values by key that expire, [Limiter]
// allows a step once per period for each key. Both are bounded and safe for concurrent use, and both have a zero value
// that is ready for use. Nothing here is stored; the controllers and drivers of all managers use it.
package expiring

import (
	"container/heap"
	"iter"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// DefaultMax is the bound of a Map and of a Limiter whose Max is zero.
const DefaultMax = 100_000

// Map is a map whose entries expire. The fields must not change after the first call.
//
// An entry that has expired is absent for every method. Its memory is freed by the next write of any key, which drops
// all entries that have expired and examines no other: a write costs O(log n), a read O(1).
//
// A write of a new key to a Map that has Max entries evicts one: the entry that would have expired first, and among
// those that expire at the same time, or never, the one that was written first. With one TTL for all entries that is
// the oldest. The other entries stay.
type Map[K comparable, V any] struct {
	// Clock is clock.RealClock if it is nil.
	Clock clock.PassiveClock
	// TTL is how long after its last write an entry expires. Zero is never: entries are only deleted or evicted.
	TTL time.Duration
	// Max is how many entries there may be. Zero is DefaultMax.
	Max int

	mu      sync.Mutex
	entries map[K]*entry[K, V]
	queue   queue[K, V]
	writes  uint64
}

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key, m.now()); e != nil {
		return e.value, true
	}
	return value, false
}

// Has reports whether the key has a value.
func (m *Map[K, V]) Has(key K) bool {
	_, found := m.Get(key)
	return found
}

// Set writes the value of a key, which expires after the TTL.
func (m *Map[K, V]) Set(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.put(key, value, m.expiry(now), now)
}

// SetUntil writes the value of a key, which expires at a time of its own. The zero time is never. A time that is past
// deletes the key.
func (m *Map[K, V]) SetUntil(key K, value V, expires time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value, expires, m.now())
}

// GetOrSet returns the value of a key if it has one, and does not extend its time. Otherwise it writes the given value
// and returns that.
func (m *Map[K, V]) GetOrSet(key K, value V) (current V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if e := m.live(key, now); e != nil {
		return e.value, true
	}
	m.put(key, value, m.expiry(now), now)
	return value, false
}

// Update replaces the value of a key by what change returns for it, and deletes the key if change returns false. The
// value expires after the TTL, as after Set. No other call reads or writes the Map in between; change must not use the
// Map itself.
func (m *Map[K, V]) Update(key K, change func(current V, found bool) (next V, keep bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var current V
	e := m.live(key, now)
	if e != nil {
		current = e.value
	}
	next, keep := change(current, e != nil)
	if !keep {
		m.remove(key)
		return
	}
	m.put(key, next, m.expiry(now), now)
}

// Delete deletes a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

// All iterates over the entries as they are when the iteration begins, in no order. The Map may be used meanwhile.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, e := range m.snapshot() {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(m.now())
	return len(m.entries)
}

func (m *Map[K, V]) snapshot() []entry[K, V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(m.now())
	all := make([]entry[K, V], 0, len(m.entries))
	for _, e := range m.entries {
		all = append(all, *e)
	}
	return all
}

func (m *Map[K, V]) now() time.Time {
	if m.Clock == nil {
		return time.Now()
	}
	return m.Clock.Now()
}

func (m *Map[K, V]) expiry(now time.Time) time.Time {
	if m.TTL <= 0 {
		return time.Time{}
	}
	return now.Add(m.TTL)
}

func (m *Map[K, V]) live(key K, now time.Time) *entry[K, V] {
	if e := m.entries[key]; e != nil && !e.expired(now) {
		return e
	}
	return nil
}

// put writes an entry, after what has expired is dropped. It evicts only for a new key.
func (m *Map[K, V]) put(key K, value V, expires, now time.Time) {
	m.prune(now)
	m.remove(key)
	next := &entry[K, V]{key: key, value: value, expires: expires, write: m.writes}
	if next.expired(now) {
		return
	}
	limit := m.Max
	if limit <= 0 {
		limit = DefaultMax
	}
	for len(m.queue) >= limit {
		m.remove(m.queue[0].key)
	}
	if m.entries == nil {
		m.entries = map[K]*entry[K, V]{}
	}
	m.writes++
	m.entries[key] = next
	heap.Push(&m.queue, next)
}

func (m *Map[K, V]) remove(key K) {
	if e := m.entries[key]; e != nil {
		delete(m.entries, key)
		heap.Remove(&m.queue, e.index)
	}
}

func (m *Map[K, V]) prune(now time.Time) {
	for len(m.queue) > 0 && m.queue[0].expired(now) {
		m.remove(m.queue[0].key)
	}
}
