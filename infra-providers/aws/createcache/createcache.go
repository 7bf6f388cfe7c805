// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package createcache caches the instances that this process requested of EC2. EC2 is eventually consistent: for some
// seconds a new instance may be in no list and its ID unknown, and to take that for absence would leak it.
//
// The cache only delays conclusions about absence. After a restart it is empty, and EC2 may not list yet what an earlier
// process requested: until the window has passed, no instance counts as absent. The aws driver calls it.
package createcache

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Window is how long EC2 may take to list a new instance. Usually it takes seconds.
const Window = 2 * time.Minute

// Cache holds the recent requests for instances. It is safe for concurrent use.
type Cache struct {
	now     func() time.Time
	started time.Time

	mu sync.Mutex
	// created are the instances that EC2 answered with, unanswered the requests whose answer was lost, mismatched those
	// whose client token EC2 has stored with other parameters, since the first time.
	created    map[types.UID]entry
	unanswered map[types.UID]entry
	mismatched map[types.UID]entry
}

type entry struct {
	instance driver.Instance
	// place is where an instance may have been created.
	place string
	since time.Time
}

// New returns an empty cache.
func New(now func() time.Time) *Cache {
	return &Cache{now: now, started: now(), created: map[types.UID]entry{}, unanswered: map[types.UID]entry{}, mismatched: map[types.UID]entry{}}
}

// AddCreated adds an instance that EC2 answered with.
func (c *Cache) AddCreated(instance driver.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	c.created[instance.Identity.UID] = entry{instance: instance, since: c.now()}
	delete(c.unanswered, instance.Identity.UID)
	delete(c.mismatched, instance.Identity.UID)
}

// AddUnanswered adds a request whose answer was lost: it may have created an instance at a place, which is empty where
// EC2 chose it.
func (c *Cache) AddUnanswered(uid types.UID, place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	c.unanswered[uid] = entry{place: place, since: c.now()}
}

// DeleteUnanswered deletes a request whose answer was lost, after EC2 refused its repetition: it created nothing.
func (c *Cache) DeleteUnanswered(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unanswered, uid)
}

// UnansweredElsewhere reports whether a request within the window may have created an instance at another place, where a
// request for this place does not return it: a client token of EC2 is valid in one zone.
func (c *Cache) UnansweredElsewhere(uid types.UID, place string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, ok := c.unanswered[uid]
	return ok && c.recent(lost) && (place == "" || lost.place != place)
}

// AddMismatch adds that EC2 has stored the client token of an instance with other parameters, and returns for how long
// that has been so.
func (c *Cache) AddMismatch(uid types.UID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.mismatched[uid]
	if !ok {
		c.mismatched[uid] = entry{since: c.now()}
		return 0
	}
	return c.now().Sub(first.since)
}

// Delete deletes all entries of an instance that is listed or deleted.
func (c *Cache) Delete(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.created, uid)
	delete(c.unanswered, uid)
	delete(c.mismatched, uid)
}

// Instance returns the instance of an identity if it was created within the window.
func (c *Cache) Instance(id driver.Identity) (driver.Instance, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, created := range c.created {
		matches := created.instance.ProviderID == id.ProviderID || id.ProviderID == "" && uid == id.UID
		if matches && c.recent(created) {
			return created.instance, true
		}
	}
	return driver.Instance{}, false
}

// Unanswered reports whether a request within the window may have created the instance of a UID.
func (c *Cache) Unanswered(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, ok := c.unanswered[uid]
	return ok && c.recent(lost)
}

// Started is when the cache was created.
func (c *Cache) Started() time.Time { return c.started }

// InStartupWindow reports whether an earlier process may have requested an instance within the window.
func (c *Cache) InStartupWindow() bool { return c.recent(entry{since: c.started}) }

func (c *Cache) recent(n entry) bool { return c.now().Sub(n.since) < Window }

// prune deletes expired entries. Mismatches stay until the instance is created or deleted, at most as long as EC2
// stores a token.
func (c *Cache) prune() {
	const tokenLifetime = 24 * time.Hour
	for _, entries := range []map[types.UID]entry{c.created, c.unanswered} {
		for uid, n := range entries {
			if !c.recent(n) {
				delete(entries, uid)
			}
		}
	}
	for uid, n := range c.mismatched {
		if c.now().Sub(n.since) > tokenLifetime {
			delete(c.mismatched, uid)
		}
	}
}
