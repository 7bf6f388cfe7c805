// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inflight remembers for a while which requests to make something had no answer. The cloud may still carry
// such a request out: until that is past, a server that is not found may be about to appear, and to take that for
// absence would leak it.
//
// What it remembers only ever makes a driver more patient. It is empty after a restart, and an earlier process may
// have asked for something: until the window has passed, everything may be in flight.
package inflight

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Window is how long after its answer was lost a request may take effect. It is seconds as a rule.
const Window = 2 * time.Minute

// Requests are those whose answers were lost.
type Requests struct {
	now   func() time.Time
	began time.Time

	mu   sync.Mutex
	lost map[types.UID]time.Time
}

// New returns the requests of a process that begins.
func New(now func() time.Time) *Requests {
	return &Requests{now: now, began: now(), lost: map[types.UID]time.Time{}}
}

// Lost notes that there was no answer to a request for a machine.
func (r *Requests) Lost(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.lost, func(_ types.UID, at time.Time) bool { return !r.recent(at) })
	r.lost[uid] = r.now()
}

// Any reports whether a request for a machine may still take effect. There is none for a machine with a providerID,
// which was answered.
func (r *Requests) Any(id driver.Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.lost[id.UID]
	return id.ProviderID == "" && (ok && r.recent(at) || r.recent(r.began))
}

func (r *Requests) recent(at time.Time) bool { return r.now().Sub(at) < Window }
