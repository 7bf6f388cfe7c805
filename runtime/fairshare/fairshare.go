// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairshare divides a fixed number of places, such as workers or parts of memory, among holders, such as the
// namespaces of tenants, so that none can take them from the others.
package fairshare

import "sync"

// Places are what is divided. A holder who has some gets another only while these are fewer than are free: one alone
// gets half of all, two get a third each, and the last place goes to a holder that has none.
type Places[K comparable] struct {
	unlimited bool

	mu    sync.Mutex
	free  int
	taken map[K]int
}

// New returns so many places; zero is no limit.
func New[K comparable](places int) *Places[K] {
	return &Places[K]{unlimited: places == 0, free: places, taken: map[K]int{}}
}

// Take takes a place for a holder, and reports whether there was one. It never waits.
func (p *Places[K]) Take(holder K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.taken[holder]; !p.unlimited && (p.free <= 0 || held > 0 && held >= p.free) {
		return false
	}
	p.free--
	p.taken[holder]++
	return true
}

// Give gives a place back that Take has taken for the holder.
func (p *Places[K]) Give(holder K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.taken[holder]--; p.taken[holder] <= 0 {
		delete(p.taken, holder)
	}
}
