// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package createcache caches the instances that this process requested of EC2. EC2 is eventually consistent: for some
// seconds a new instance may be in no list and its ID unknown, and to take that for absence would leak it.
//
// The cache only delays conclusions about absence. After a restart it is empty, and EC2 may not list yet what an earlier
// process requested: until the window has passed, no instance counts as absent. The aws driver calls it.
package createcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// Window is how long EC2 may take to list a new instance. Usually it takes seconds.
const Window = 2 * time.Minute

// tokenLifetime is how long EC2 stores a client token.
const tokenLifetime = 24 * time.Hour

// Cache holds the recent requests for instances. It is safe for concurrent use.
type Cache struct {
	clock   clock.PassiveClock
	started time.Time

	// created are the instances that EC2 answered with, unanswered the places of requests whose answer was lost.
	created    expiring.Map[types.UID, driver.Instance]
	unanswered expiring.Map[types.UID, string]
	// mismatched has since when EC2 has the client token of an instance stored with other parameters.
	mismatched expiring.Map[types.UID, time.Time]
}

// New returns an empty cache.
func New(clock clock.PassiveClock) *Cache {
	c := &Cache{clock: clock, started: clock.Now()}
	c.created.Clock, c.created.TTL = clock, Window
	c.unanswered.Clock, c.unanswered.TTL = clock, Window
	c.mismatched.Clock, c.mismatched.TTL = clock, tokenLifetime
	return c
}

// AddCreated adds an instance that EC2 answered with.
func (c *Cache) AddCreated(instance driver.Instance) {
	c.created.Set(instance.Identity.UID, instance)
	c.unanswered.Delete(instance.Identity.UID)
	c.mismatched.Delete(instance.Identity.UID)
}

// AddUnanswered adds a request whose answer was lost: it may have created an instance at a place, which is empty where
// EC2 chose it.
func (c *Cache) AddUnanswered(uid types.UID, place string) { c.unanswered.Set(uid, place) }

// DeleteUnanswered deletes a request whose answer was lost, after EC2 refused its repetition: it created nothing.
func (c *Cache) DeleteUnanswered(uid types.UID) { c.unanswered.Delete(uid) }

// UnansweredElsewhere reports whether a request within the window may have created an instance at another place, where a
// request for this place does not return it: a client token of EC2 is valid in one zone.
func (c *Cache) UnansweredElsewhere(uid types.UID, place string) bool {
	earlier, ok := c.unanswered.Get(uid)
	return ok && (place == "" || earlier != place)
}

// AddMismatch adds that EC2 has stored the client token of an instance with other parameters, and returns for how long
// that has been so.
func (c *Cache) AddMismatch(uid types.UID) time.Duration {
	since, _ := c.mismatched.GetOrSet(uid, c.clock.Now())
	return c.clock.Since(since)
}

// Delete deletes all entries of an instance that is listed or deleted.
func (c *Cache) Delete(uid types.UID) {
	c.created.Delete(uid)
	c.unanswered.Delete(uid)
	c.mismatched.Delete(uid)
}

// Instance returns the instance of an identity if it was created within the window.
func (c *Cache) Instance(id driver.Identity) (driver.Instance, bool) {
	if id.ProviderID == "" {
		return c.created.Get(id.UID)
	}
	for _, created := range c.created.All() {
		if created.ProviderID == id.ProviderID {
			return created, true
		}
	}
	return driver.Instance{}, false
}

// Unanswered reports whether a request within the window may have created the instance of a UID.
func (c *Cache) Unanswered(uid types.UID) bool { return c.unanswered.Has(uid) }

// Started is when the cache was created.
func (c *Cache) Started() time.Time { return c.started }

// InStartupWindow reports whether an earlier process may have requested an instance within the window.
func (c *Cache) InStartupWindow() bool { return c.clock.Since(c.started) < Window }
