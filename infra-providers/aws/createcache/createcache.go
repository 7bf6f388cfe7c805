// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package createcache remembers for a while what this process asked EC2 to make. EC2 shows a new instance late:
// for some seconds it may be in no list and its ID be unknown, and to take that for absence would leak it.
//
// What it remembers only ever makes a driver more patient. After a restart it is empty, and what an earlier
// process asked for may not be shown yet: until the window has passed, it knows of nothing that it is not there.
package createcache

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Window is how long EC2 may take to show what it made. It is seconds as a rule.
const Window = 2 * time.Minute

// Cache is what was asked for lately.
type Cache struct {
	now   func() time.Time
	since time.Time

	mu sync.Mutex
	// made are instances that EC2 said it made, unclear those for which the answer was lost, refused those
	// whose token EC2 knows under other parameters: when each was noted first.
	made    map[types.UID]entry
	unclear map[types.UID]entry
	refused map[types.UID]entry
}

type entry struct {
	instance driver.Instance
	// place is where an instance may have been made.
	place string
	since time.Time
}

// New returns an empty memory.
func New(now func() time.Time) *Cache {
	return &Cache{now: now, since: now(), made: map[types.UID]entry{}, unclear: map[types.UID]entry{}, refused: map[types.UID]entry{}}
}

// Created notes an instance that EC2 said it made.
func (c *Cache) Created(instance driver.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	c.made[instance.Identity.UID] = entry{instance: instance, since: c.now()}
	delete(c.unclear, instance.Identity.UID)
	delete(c.refused, instance.Identity.UID)
}

// Unclear notes that an instance may have been made at a place, which is empty where EC2 chose it.
func (c *Cache) Unclear(uid types.UID, place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	c.unclear[uid] = entry{place: place, since: c.now()}
}

// Resolve notes that nothing was made after all: EC2 refused the same request again, with a reason.
func (c *Cache) Resolve(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unclear, uid)
}

// Elsewhere reports whether an instance may have been made within the window where a request for a place would not
// find it: a token of EC2 is good for one zone.
func (c *Cache) Elsewhere(uid types.UID, place string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, ok := c.unclear[uid]
	return ok && c.fresh(lost) && (place == "" || lost.place != place)
}

// Refused notes that EC2 knows the token of an instance under other parameters, and tells for how long it
// has been saying so.
func (c *Cache) Refused(uid types.UID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.refused[uid]
	if !ok {
		c.refused[uid] = entry{since: c.now()}
		return 0
	}
	return c.now().Sub(first.since)
}

// Forget drops what is known of an instance that was seen or deleted.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, uid)
	delete(c.unclear, uid)
	delete(c.refused, uid)
}

// Instance returns the instance of an identity if it was made within the window.
func (c *Cache) Instance(id driver.Identity) (driver.Instance, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, made := range c.made {
		asked := made.instance.ProviderID == id.ProviderID || id.ProviderID == "" && uid == id.UID
		if asked && c.fresh(made) {
			return made.instance, true
		}
	}
	return driver.Instance{}, false
}

// IsUnclear reports whether the instance of a UID may have been made within the window.
func (c *Cache) IsUnclear(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, ok := c.unclear[uid]
	return ok && c.fresh(lost)
}

// Since is when this process began to remember.
func (c *Cache) Since() time.Time { return c.since }

// IsYoung reports whether an earlier process may have asked for an instance within the window.
func (c *Cache) IsYoung() bool { return c.fresh(entry{since: c.since}) }

func (c *Cache) fresh(n entry) bool { return c.now().Sub(n.since) < Window }

// prune drops what is past its window. Refusals stay until the instance is made or forgotten, at most as
// long as EC2 remembers a token.
func (c *Cache) prune() {
	const tokens = 24 * time.Hour
	for _, notes := range []map[types.UID]entry{c.made, c.unclear} {
		for uid, n := range notes {
			if !c.fresh(n) {
				delete(notes, uid)
			}
		}
	}
	for uid, n := range c.refused {
		if c.now().Sub(n.since) > tokens {
			delete(c.refused, uid)
		}
	}
}
