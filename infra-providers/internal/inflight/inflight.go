// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inflight records the creations of instances and disks that this process has requested and whose end it has not seen.
// A creation ends with an operation that may fail long after it was accepted, and a list may not have its object yet.
//
// The record only delays conclusions about absence, and finds the cause of a failure. It is empty after a restart, and an
// earlier process may have made requests: until the window has passed, every machine may have one in flight. The drivers
// google, hetzner, nutanix and yandex call it.
package inflight

import (
	"cmp"
	"maps"
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

// lifetime is how long the creations of a machine are kept that is never asked about again.
const lifetime = time.Hour

// keyLifetime is how long a cloud may answer an idempotency key with the first operation. The number of failures, from which the
// next key derives, is kept for as long.
const keyLifetime = 24 * time.Hour

// maxFailed is how many failed creations of a machine are remembered. Shortages delay the next attempt, so that there are few.
const maxFailed = 32

// maxSeries is of how many series of a machine the failures are counted. Beyond it, they are counted anew, as after a restart.
const maxSeries = 64

// Creation is one request for an object of a machine, by the object's name.
type Creation struct {
	// Key is the idempotency key, the same for each repetition of the request.
	Key string
	// Series is what the failures are counted by, from whose number the key derives: each series has keys of its own. Empty means
	// the name of the object.
	Series string
	// Operation is the ID of the operation; empty as long as no answer was received.
	Operation string
	// ID is that of the object, which is known with the operation.
	ID string
	// Zone is where the object is requested, in clouds whose operations belong to a zone.
	Zone string
	// Disks are the names of the disks that are created with the object. They may stay when that fails.
	Disks []string
	// Answered is when the cloud answered with the operation, by its own clock; zero where that is not known.
	Answered time.Time
	// Sent is when the request was sent last.
	Sent time.Time
}

// machine is the record of a machine.
type machine struct {
	creations map[string]Creation
	// failed are the creations that have failed and whose objects or disks may still exist.
	failed []failure
}

type failure struct {
	Creation
	at time.Time
}

// Creations are those of one process. They are safe for concurrent use.
type Creations struct {
	clock   clock.PassiveClock
	started time.Time

	mu       sync.Mutex
	machines expiring.Map[driver.Identity, *machine]
	// attempts are the numbers of creations that have failed, by series.
	attempts expiring.Map[driver.Identity, map[string]int]
}

// New returns the creations of a process that starts now.
func New(clock clock.PassiveClock) *Creations {
	c := &Creations{clock: clock, started: clock.Now()}
	c.machines.Clock, c.machines.TTL = clock, lifetime
	c.attempts.Clock, c.attempts.TTL = clock, keyLifetime
	return c
}

// Machine returns what stays the same of an identity. A UID alone is not enough, because the author of a machine may choose
// it.
func Machine(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// of returns the record of a machine, and keeps it for another lifetime.
func (c *Creations) of(id driver.Identity) *machine {
	known, ok := c.machines.Get(Machine(id))
	if !ok {
		known = &machine{creations: map[string]Creation{}}
	}
	c.machines.Set(Machine(id), known)
	return known
}

// Get returns the creation of an object.
func (c *Creations) Get(id driver.Identity, name string) (Creation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.machines.Get(Machine(id))
	if !ok {
		return Creation{}, false
	}
	creation, ok := known.creations[name]
	return creation, ok
}

// All returns the creations of a machine by the names of their objects.
func (c *Creations) All(id driver.Identity) map[string]Creation {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.machines.Get(Machine(id))
	if !ok {
		return nil
	}
	return maps.Clone(known.creations)
}

// Set records a creation, which is sent or answered now.
func (c *Creations) Set(id driver.Identity, name string, creation Creation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	creation.Sent = c.clock.Now()
	c.of(id).creations[name] = creation
}

// Keep records a creation with the time at which it was sent before.
func (c *Creations) Keep(id driver.Identity, name string, creation Creation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(id).creations[name] = creation
}

// End deletes a creation whose object exists, or whose request was not carried out.
func (c *Creations) End(id driver.Identity, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.machines.Get(Machine(id)); ok {
		delete(known.creations, name)
	}
}

// Fail deletes a creation that has failed, so that the next one has another key, and remembers its object and disks as long as
// a list may be behind.
func (c *Creations) Fail(id driver.Identity, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(id)
	c.expire(known)
	if failed := known.creations[name]; (failed.ID != "" || len(failed.Disks) > 0) && len(known.failed) < maxFailed {
		known.failed = append(known.failed, failure{Creation: failed, at: c.clock.Now()})
	}
	c.count(id, cmp.Or(known.creations[name].Series, name))
	delete(known.creations, name)
}

// Count counts the failure of a creation that is not recorded, because an earlier process has requested it.
func (c *Creations) Count(id driver.Identity, series string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(id, series)
}

func (c *Creations) count(id driver.Identity, series string) {
	attempts, ok := c.attempts.Get(Machine(id))
	if _, counted := attempts[series]; !ok || !counted && len(attempts) >= maxSeries {
		attempts = map[string]int{}
	}
	attempts[series]++
	c.attempts.Set(Machine(id), attempts)
}

// Attempt returns how many creations of a series have failed.
func (c *Creations) Attempt(id driver.Identity, series string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	attempts, _ := c.attempts.Get(Machine(id))
	return attempts[series]
}

// Failed returns the creations of a machine that have failed a moment ago, oldest first: those with an ID or disks.
func (c *Creations) Failed(id driver.Identity) []Creation {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.machines.Get(Machine(id))
	if !ok {
		return nil
	}
	c.expire(known)
	failed := make([]Creation, 0, len(known.failed))
	for _, each := range known.failed {
		failed = append(failed, each.Creation)
	}
	return failed
}

// expire deletes failures that are older than the window.
func (c *Creations) expire(known *machine) {
	known.failed = slices.DeleteFunc(known.failed, func(f failure) bool { return c.clock.Since(f.at) >= Window })
}

// Forget deletes the record of a machine.
func (c *Creations) Forget(id driver.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines.Delete(Machine(id))
	c.attempts.Delete(Machine(id))
}

// MayAppear reports whether the object of a creation that was not found may exist soon.
func (c *Creations) MayAppear(creation Creation) bool {
	return creation.Operation != "" || c.clock.Since(creation.Sent) < Window
}

// InStartupWindow reports whether an earlier process may have requested what no list has yet.
func (c *Creations) InStartupWindow() bool { return c.clock.Since(c.started) < Window }

// Started is when the process started.
func (c *Creations) Started() time.Time { return c.started }
