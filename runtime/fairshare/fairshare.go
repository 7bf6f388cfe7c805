// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairshare divides a fixed number of seats, such as workers or parts of memory, among holders, such as the
// namespaces of tenants, so that none can take them from the others.
package fairshare

import "sync"

// Seats are what is divided. A holder who has some gets another only while these are fewer than are free: one alone
// gets half of all, two get a third each, and the last seat goes to a holder that has none.
type Seats[K comparable] struct {
	unlimited bool

	mu    sync.Mutex
	free  int
	taken map[K]int
}

// New returns so many seats; zero is no limit.
func New[K comparable](seats int) *Seats[K] {
	return &Seats[K]{unlimited: seats == 0, free: seats, taken: map[K]int{}}
}

// Acquire takes a seat for a holder, and reports whether there was one. It never waits.
func (s *Seats[K]) Acquire(holder K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.taken[holder]; !s.unlimited && (s.free <= 0 || held > 0 && held >= s.free) {
		return false
	}
	s.free--
	s.taken[holder]++
	return true
}

// Release gives back a seat that Acquire has taken for the holder.
func (s *Seats[K]) Release(holder K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.taken[holder]--; s.taken[holder] <= 0 {
		delete(s.taken, holder)
	}
}
