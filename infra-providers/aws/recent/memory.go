// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package recent remembers for a while what this process asked EC2 to make. EC2 shows a new instance late:
// for some seconds it may be in no list and its ID be unknown, and to take that for absence would leak it.
//
// What it remembers only ever makes a driver more patient. After a restart it is empty, and what an earlier
// process asked for may not be shown yet: until the window has passed, it knows of nothing that it is not there.
package recent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Window is how long EC2 may take to show what it made. It is seconds as a rule.
const Window = 2 * time.Minute

// Memory is what was asked for lately.
type Memory struct {
	now   func() time.Time
	since time.Time

	mu sync.Mutex
	// made are instances that EC2 said it made, unclear those for which the answer was lost, refused those
	// whose token EC2 knows under other parameters: when each was noted first.
	made    map[types.UID]note
	unclear map[types.UID]note
	refused map[types.UID]note
}

type note struct {
	instance driver.Instance
	since    time.Time
}

// New returns an empty memory.
func New(now func() time.Time) *Memory {
	return &Memory{now: now, since: now(), made: map[types.UID]note{}, unclear: map[types.UID]note{}, refused: map[types.UID]note{}}
}

// Made notes an instance that EC2 said it made.
func (m *Memory) Made(instance driver.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune()
	m.made[instance.Identity.UID] = note{instance, m.now()}
	delete(m.unclear, instance.Identity.UID)
	delete(m.refused, instance.Identity.UID)
}

// Unclear notes that an instance may have been made.
func (m *Memory) Unclear(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune()
	m.unclear[uid] = note{since: m.now()}
}

// Refused notes that EC2 knows the token of an instance under other parameters, and tells for how long it
// has been saying so.
func (m *Memory) Refused(uid types.UID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, ok := m.refused[uid]
	if !ok {
		m.refused[uid] = note{since: m.now()}
		return 0
	}
	return m.now().Sub(first.since)
}

// Forget drops what is known of an instance that was seen or deleted.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.made, uid)
	delete(m.unclear, uid)
	delete(m.refused, uid)
}

// Instance returns the instance of an identity if it was made within the window.
func (m *Memory) Instance(id driver.Identity) (driver.Instance, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, made := range m.made {
		asked := made.instance.ProviderID == id.ProviderID || id.ProviderID == "" && uid == id.UID
		if asked && m.fresh(made) {
			return made.instance, true
		}
	}
	return driver.Instance{}, false
}

// IsUnclear reports whether the instance of a UID may have been made within the window.
func (m *Memory) IsUnclear(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost, ok := m.unclear[uid]
	return ok && m.fresh(lost)
}

// IsYoung reports whether an earlier process may have asked for an instance within the window.
func (m *Memory) IsYoung() bool { return m.fresh(note{since: m.since}) }

func (m *Memory) fresh(n note) bool { return m.now().Sub(n.since) < Window }

// prune drops what is past its window. Refusals stay until the instance is made or forgotten, at most as
// long as EC2 remembers a token.
func (m *Memory) prune() {
	const tokens = 24 * time.Hour
	for _, notes := range []map[types.UID]note{m.made, m.unclear} {
		for uid, n := range notes {
			if !m.fresh(n) {
				delete(notes, uid)
			}
		}
	}
	for uid, n := range m.refused {
		if m.now().Sub(n.since) > tokens {
			delete(m.refused, uid)
		}
	}
}
