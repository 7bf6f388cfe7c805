// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import "time"

// entry is one key and its value.
type entry[K comparable, V any] struct {
	key   K
	value V
	// expires is when the entry expires. Zero is never.
	expires time.Time
	// write numbers the writes of the Map, which orders entries that expire at the same time.
	write uint64
	// index is the position in the queue.
	index int
}

func (e *entry[K, V]) expired(now time.Time) bool {
	return !e.expires.IsZero() && !now.Before(e.expires)
}

func (e *entry[K, V]) before(other *entry[K, V]) bool {
	switch {
	case e.expires.Equal(other.expires):
		return e.write < other.write
	case e.expires.IsZero():
		return false
	case other.expires.IsZero():
		return true
	}
	return e.expires.Before(other.expires)
}

// queue has the entries of a Map in the order in which they are dropped. It implements heap.Interface.
type queue[K comparable, V any] []*entry[K, V]

// Len implements heap.Interface.
func (q queue[K, V]) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue[K, V]) Less(i, j int) bool { return q[i].before(q[j]) }

// Swap implements heap.Interface.
func (q queue[K, V]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue[K, V]) Push(x any) {
	e := x.(*entry[K, V])
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue[K, V]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
