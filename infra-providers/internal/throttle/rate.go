// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"math"
	"slices"
	"time"

	"drover.io/infra-providers/driver"
)

const (
	// waitMin is how long a namespace whose call was refused has a share of the rate at least: longer than its callers wait.
	waitMin = 30 * time.Second
	// reserveTime is how much of the rate is reserved for all that wait together: twice as long as their callers wait at least.
	reserveTime = 10 * time.Second
	// maxShares bounds the namespaces that have a share at the same time.
	maxShares = 1000
	// rounding is how far a sum of fractions of a call may be off.
	rounding = 1e-9
)

// fairRate is a bucket of calls that is filled at the rate of an account and divided among the namespaces that call it. A
// namespace whose call was refused has a share: each call that comes into the bucket is reserved for one of those that have
// a share, in turns, so that one that calls as often as it can takes nothing from the others. What is not reserved is for
// any namespace, and one alone gets all. A share ends a while after the last refusal.
type fairRate struct {
	perSecond, burst float64

	calls  float64
	filled time.Time
	// shares are in the order of their next turns.
	shares []*share
}

// share is what a namespace has of an account's rate.
type share struct {
	namespace string
	// reserved are calls in the bucket that only this namespace may make.
	reserved int
	ends     time.Time
}

// newFairRate returns the rate of an account; nil for one without limits.
func newFairRate(limits driver.Limits) *fairRate {
	if limits.PerSecond <= 0 {
		return nil
	}
	burst := float64(max(limits.Burst, 1))
	return &fairRate{perSecond: limits.PerSecond, burst: burst, calls: burst}
}

// take counts a call for a namespace, and returns zero, or how long it has to wait.
func (r *fairRate) take(namespace string, now time.Time) (wait time.Duration) {
	if r == nil {
		return 0
	}
	r.fill(now)
	own := r.share(namespace)
	switch {
	case own != nil && own.reserved > 0:
		own.reserved--
		r.calls--
		return 0
	case r.unreserved() >= 1-rounding:
		r.calls = max(r.calls-1, 0)
		return 0
	case own == nil && len(r.shares) >= maxShares:
		return waitMin
	case own == nil:
		own = &share{namespace: namespace}
		r.shares = append(r.shares, own)
	}
	wait = r.waitFor(own)
	own.ends = now.Add(max(waitMin, 2*wait))
	return wait
}

// fill adds the calls since the last time, and reserves them.
func (r *fairRate) fill(now time.Time) {
	if !r.filled.IsZero() {
		r.calls = min(r.calls+max(now.Sub(r.filled).Seconds(), 0)*r.perSecond, r.burst)
	}
	r.filled = now
	r.shares = slices.DeleteFunc(r.shares, func(s *share) bool { return now.After(s.ends) })
	for _, each := range r.shares {
		each.reserved = min(each.reserved, r.maxReserved())
	}
	for r.unreserved() >= 1-rounding {
		at := slices.IndexFunc(r.shares, r.hasRoom)
		if at < 0 {
			return
		}
		next := r.shares[at]
		next.reserved++
		r.shares = append(slices.Delete(r.shares, at, at+1), next)
	}
}

func (r *fairRate) share(namespace string) *share {
	if at := slices.IndexFunc(r.shares, func(s *share) bool { return s.namespace == namespace }); at >= 0 {
		return r.shares[at]
	}
	return nil
}

// unreserved is how many calls in the bucket are for any namespace.
func (r *fairRate) unreserved() float64 {
	left := r.calls
	for _, each := range r.shares {
		left -= float64(each.reserved)
	}
	return left
}

// maxReserved is how many calls may be reserved for a share.
func (r *fairRate) maxReserved() int {
	return max(int(min(r.burst, r.perSecond*reserveTime.Seconds()))/max(len(r.shares), 1), 1)
}

func (r *fairRate) hasRoom(s *share) bool { return s.reserved < r.maxReserved() }

// waitFor is how long it takes until a call is reserved for a share.
func (r *fairRate) waitFor(own *share) time.Duration {
	turns := 1
	for _, each := range r.shares {
		if each == own {
			break
		}
		if r.hasRoom(each) {
			turns++
		}
	}
	return time.Duration(math.Ceil((float64(turns) - r.unreserved()) / r.perSecond * float64(time.Second)))
}
