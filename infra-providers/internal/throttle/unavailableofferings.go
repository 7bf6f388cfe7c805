// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"drover.io/infra-providers/driver"
)

// maxUnavailable is how many are kept of an account: the authors of specs name the instance types and zones.
const maxUnavailable = 10_000

// Offering is an instance type in a zone.
type Offering struct{ InstanceType, Zone string }

// UnavailableOffering is why, and until when, an offering is unavailable. The zero value is none.
type UnavailableOffering struct {
	Offering Offering
	// Cause is the last error of the cloud: InsufficientCapacityError or QuotaExceededError.
	Cause error
	Until time.Time
	// Left is the time until then; zero for an offering that is available.
	Left time.Duration
}

// scope is what an answer of the cloud applies to: one namespace, because it is about the machines of that, and in the
// namespace an offering, or one configuration with the offering.
type scope struct {
	namespace string
	offering  Offering
	// request is the digest of the configuration; zero for every configuration with the offering.
	request [sha256.Size]byte
}

// unavailability is why a scope is unavailable, and until when.
type unavailability struct {
	backoff
	cause error
}

// UnavailableOffering returns whether the offering of a configuration is unavailable to a namespace. It does not prevent the call: a caller whose earlier creation may have succeeded must create again all the same.
func (t *Throttle[C]) UnavailableOffering(namespace string, config C) UnavailableOffering {
	if t.options.Offering == nil {
		return UnavailableOffering{}
	}
	at, now := t.offering(config), t.options.Now()
	found := UnavailableOffering{Offering: at}
	for _, of := range []scope{{namespace: namespace, offering: at}, {namespace, at, digest(config)}} {
		known, ok := t.unavailable.Get(of)
		if left := known.left(now); ok && (found.Cause == nil || left > found.Left) {
			found = UnavailableOffering{Offering: at, Cause: known.cause, Until: known.until, Left: left}
		}
	}
	return found
}

// recordResult records the result of a creation: an offering without capacity or quota is unavailable, for longer each
// time that this is repeated soon after.
func (t *Throttle[C]) recordResult(namespace string, config C, err error) {
	if t.options.Offering == nil {
		return
	}
	of := scope{namespace: namespace, offering: t.offering(config)}
	own := scope{namespace, of.offering, digest(config)}
	t.mu.Lock()
	defer t.mu.Unlock()
	full, isFull := errors.AsType[*driver.InsufficientCapacityError](err)
	switch {
	case err == nil:
		t.unavailable.Delete(of)
		t.unavailable.Delete(own)
	case isFull && full.OfRequest:
		t.setUnavailable(own, err)
	case isFull || driver.IsQuotaExceeded(err):
		t.setUnavailable(of, err)
	}
}

func (t *Throttle[C]) setUnavailable(of scope, err error) {
	known, _ := t.unavailable.Get(of)
	known.cause = driver.Brief(err)
	// Many machines may be refused at once; that counts once.
	if now := t.options.Now(); known.left(now) == 0 {
		known.grow(now, unavailableMin, unavailableMax, t.options.Jitter())
	}
	// A later refusal is independent of this one, and begins with the shortest time again.
	t.unavailable.SetUntil(of, known, known.until.Add(unavailableMax))
}

// digest identifies a configuration. Machines of one template have the same.
func digest(config any) [sha256.Size]byte {
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // configurations are made of the types of the API
	}
	return sha256.Sum256(text)
}

func (t *Throttle[C]) offering(config C) Offering {
	instanceType, zone := t.options.Offering(config)
	return Offering{instanceType, zone}
}
