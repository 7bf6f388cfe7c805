// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inflight records the insertions of instances that this process has requested and whose end it has not seen. An
// insertion ends with an operation that may fail long after it was accepted, and a list may not have its instance yet.
//
// The record only delays conclusions about absence, and finds the cause of a failure. It is empty after a restart, and an
// earlier process may have made requests: until the window has passed, every machine may have one in flight. The google
// driver calls it.
package inflight

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// Window is how long a request may take effect after its answer was lost, and how long a list may be behind. Usually it is
// seconds.
const Window = 2 * time.Minute

// lifetime is how long an insertion is remembered that is never asked about again.
const lifetime = time.Hour

// maxFailed is how many failed insertions of a machine are remembered. Shortages delay the next attempt, so that there are few.
const maxFailed = 32

// Insertion is one request for an instance.
type Insertion struct {
	Zone string
	// RequestID is the same for each repetition of the request.
	RequestID string
	// Operation is the name of the operation; empty as long as no answer was received.
	Operation string
	// Disks are the names of the disks that it creates. They may stay when it fails.
	Disks []string
	// Sent is when the request was sent last.
	Sent time.Time
}

// Insertions are those of one process. They are safe for concurrent use.
type Insertions struct {
	clock   clock.PassiveClock
	started time.Time
	known   expiring.Map[driver.Identity, Insertion]

	mu     sync.Mutex
	failed expiring.Map[driver.Identity, []Insertion]
}

// New returns the insertions of a process that starts now.
func New(clock clock.PassiveClock) *Insertions {
	i := &Insertions{clock: clock, started: clock.Now()}
	i.known.Clock, i.known.TTL = clock, lifetime
	i.failed.Clock, i.failed.TTL = clock, Window
	return i
}

// key is what stays the same of an identity. A UID alone is not enough, because the author of a machine may choose it.
func key(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// Get returns the insertion of a machine.
func (i *Insertions) Get(id driver.Identity) (Insertion, bool) { return i.known.Get(key(id)) }

// Set records an insertion, which is sent or answered now.
func (i *Insertions) Set(id driver.Identity, insertion Insertion) {
	insertion.Sent = i.clock.Now()
	i.known.Set(key(id), insertion)
}

// Delete deletes the insertion of a machine whose end is known.
func (i *Insertions) Delete(id driver.Identity) { i.known.Delete(key(id)) }

// Fail deletes the insertion of a machine, which has ended without an instance, and remembers its disks as long as a list may
// be behind.
func (i *Insertions) Fail(id driver.Identity, insertion Insertion) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Delete(id)
	before, _ := i.failed.Get(key(id))
	if len(before) < maxFailed {
		i.failed.Set(key(id), append(slices.Clip(before), insertion))
	}
}

// Failed returns the insertions of a machine that have failed a moment ago.
func (i *Insertions) Failed(id driver.Identity) []Insertion {
	failed, _ := i.failed.Get(key(id))
	return failed
}

// MayAppear reports whether the instance of an insertion that was not found may exist soon.
func (i *Insertions) MayAppear(insertion Insertion) bool {
	return insertion.Operation != "" || i.clock.Since(insertion.Sent) < Window
}

// InStartupWindow reports whether an earlier process may have requested an instance that no list has yet.
func (i *Insertions) InStartupWindow() bool { return i.clock.Since(i.started) < Window }
