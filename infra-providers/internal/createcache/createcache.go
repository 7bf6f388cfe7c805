// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package createcache caches the instances that this process requested of a cloud with client tokens. Such a cloud is
// eventually consistent: for some seconds a new instance may be in no list and its ID unknown, and to take that for absence
// would leak it.
//
// The cache only delays conclusions about absence. After a restart it is empty, and the cloud may not list yet what an earlier
// process requested: until the window has passed, no instance counts as absent.
package createcache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// Window is how long the cloud may take to list a new instance. Usually it takes seconds.
const Window = 2 * time.Minute

// tokenLifetime is how long the cloud stores a client token.
const tokenLifetime = 24 * time.Hour

// Cache holds the recent requests for instances, by machine. A UID alone is not enough, because the author of a machine may
// choose it. It is safe for concurrent use.
type Cache struct {
	clock   clock.PassiveClock
	started time.Time

	// created are the instances that the cloud answered with, unanswered the places of requests whose answer was lost.
	created    expiring.Map[driver.Identity, driver.Instance]
	unanswered expiring.Map[driver.Identity, string]
	// mismatched has since when the cloud has the client token of an instance stored with other parameters.
	mismatched expiring.Map[driver.Identity, time.Time]
	// refused are the numbers of requests for a place that the cloud refused.
	refused expiring.Map[request, int]
}

// request is one for the instance of a machine at a place.
type request struct {
	machine driver.Identity
	place   string
}

// New returns an empty cache.
func New(clock clock.PassiveClock) *Cache {
	c := &Cache{clock: clock, started: clock.Now()}
	c.created.Clock, c.created.TTL = clock, Window
	c.unanswered.Clock, c.unanswered.TTL = clock, Window
	c.mismatched.Clock, c.mismatched.TTL = clock, tokenLifetime
	c.refused.Clock, c.refused.TTL = clock, tokenLifetime
	return c
}

// machine returns what stays the same of an identity.
func machine(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// AddCreated adds an instance that the cloud answered with.
func (c *Cache) AddCreated(instance driver.Instance) {
	key := machine(instance.Identity)
	c.created.Set(key, instance)
	c.unanswered.Delete(key)
	c.mismatched.Delete(key)
}

// AddListed adds an instance that the cloud lists although no request for it was answered: another answer may be behind that
// list, so it is known for as long as one that the cloud answered with. Of one that is terminated nothing is kept.
func (c *Cache) AddListed(instance driver.Instance) {
	key := machine(instance.Identity)
	switch {
	case instance.State == driver.Terminated:
		c.Delete(instance.Identity)
	case c.unanswered.Has(key):
		c.AddCreated(instance)
	default:
		c.mismatched.Delete(key)
	}
}

// AddUnanswered adds a request whose answer was lost: it may have created an instance at a place, which is empty where
// the cloud chose it.
func (c *Cache) AddUnanswered(id driver.Identity, place string) { c.unanswered.Set(machine(id), place) }

// DeleteUnanswered deletes a request whose answer was lost, after the cloud refused its repetition: it created nothing.
func (c *Cache) DeleteUnanswered(id driver.Identity) { c.unanswered.Delete(machine(id)) }

// UnansweredElsewhere reports whether a request within the window may have created an instance at another place, where a
// request for this place does not return it: a client token is valid for one place.
func (c *Cache) UnansweredElsewhere(id driver.Identity, place string) bool {
	earlier, ok := c.unanswered.Get(machine(id))
	return ok && (place == "" || earlier != place)
}

// AddMismatch adds that the cloud has stored the client token of an instance with other parameters. It returns whether another
// token may be used: once that has been so for the window, and no answer is missing, no request has created an instance that the
// cloud does not list.
func (c *Cache) AddMismatch(id driver.Identity) bool {
	since, _ := c.mismatched.GetOrSet(machine(id), c.clock.Now())
	return c.clock.Since(since) >= Window && !c.Unanswered(id)
}

// AddRefusal adds that the cloud refused a request for a place, so that the next one has another client token: with the same
// one it might be answered with the refusal again.
func (c *Cache) AddRefusal(id driver.Identity, place string) {
	c.refused.Set(request{machine(id), place}, c.Refusals(id, place)+1)
}

// AddInvalid adds a refusal that is repeated, with a pause, until something else changes in the cloud. Numbers continue from the time at
// which the process started, and so are none of an earlier process: the next request is not answered with the refusals of that, one
// after the other.
func (c *Cache) AddInvalid(id driver.Identity, place string) {
	c.refused.Set(request{machine(id), place}, max(c.Refusals(id, place), int(c.started.Unix()))+1)
}

// Refusals returns the number of requests for a place that the cloud refused, or a greater one after AddInvalid.
func (c *Cache) Refusals(id driver.Identity, place string) int {
	refused, _ := c.refused.Get(request{machine(id), place})
	return refused
}

// Delete deletes what is known of the creation of an instance that is deleted.
func (c *Cache) Delete(id driver.Identity) {
	c.created.Delete(machine(id))
	c.unanswered.Delete(machine(id))
	c.mismatched.Delete(machine(id))
}

// Instance returns the instance of an identity if it was created within the window.
func (c *Cache) Instance(id driver.Identity) (driver.Instance, bool) {
	if id.ProviderID == "" {
		return c.created.Get(machine(id))
	}
	for _, created := range c.created.All() {
		if created.ProviderID == id.ProviderID {
			return created, true
		}
	}
	return driver.Instance{}, false
}

// Unanswered reports whether a request within the window may have created the instance of an identity.
func (c *Cache) Unanswered(id driver.Identity) bool { return c.unanswered.Has(machine(id)) }

// Started is when the cache was created.
func (c *Cache) Started() time.Time { return c.started }

// InStartupWindow reports whether an earlier process may have requested an instance within the window.
func (c *Cache) InStartupWindow() bool { return c.clock.Since(c.started) < Window }

// ClientToken derives a client token of 64 characters, the most that clouds accept, from values that can be marshalled to JSON.
func ClientToken(of ...any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // the types of the SDKs and of the API can always be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
