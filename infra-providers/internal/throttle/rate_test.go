// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

// retryMin is how long a reconciler waits at least after a call was refused.
const retryMin = 5 * time.Second

// caller is an object of a namespace.
type caller struct {
	namespace string
	// loops is true for one that calls again at once, whatever the answer, and every is how often another one calls that has
	// an answer.
	loops bool
	every time.Duration
	next  time.Time
}

// run makes the calls of a time, in the order of the callers, and returns how many of each namespace were made.
func (b *env) run(length time.Duration, callers []*caller) map[string]int {
	const step = 50 * time.Millisecond
	made := map[string]int{}
	for end := b.now.Add(length); b.now.Before(end); b.now = b.now.Add(step) {
		for _, c := range callers {
			for c.loops || !b.now.Before(c.next) {
				err := b.Do(c.namespace, func() error { return nil })
				if err != nil {
					c.next = b.now.Add(max(driver.RetryAfter(err), retryMin))
					break
				}
				made[c.namespace]++
				c.next = b.now.Add(c.every)
			}
		}
		if sum := b.rate.calls - b.rate.unreserved(); sum > b.rate.calls+0.001 || b.rate.calls > b.rate.burst {
			b.t.Fatalf("%v of %v calls are reserved", sum, b.rate.calls)
		}
	}
	return made
}

// objects are so many of a namespace, each of which calls that often.
func objects(namespace string, count int, every time.Duration) (all []*caller) {
	for range count {
		all = append(all, &caller{namespace: namespace, every: every})
	}
	return all
}

// An object of one namespace is changed again and again, and each change causes calls. Before, they used the whole rate of
// the account that several namespaces share.
func TestNamespaceThatLoopsLeavesTheRateToOthers(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]driver.Limits{
		"AWS": {PerSecond: 10, Burst: 50}, "DigitalOcean": {PerSecond: 0.35, Burst: 40}, "Hetzner": {PerSecond: 0.5, Burst: 300}, "OpenStack": {PerSecond: 20, Burst: 100}, "vSphere": {PerSecond: 20, Burst: 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, limits)
			loop := &caller{namespace: "loops", loops: true}
			b.run(time.Minute, []*caller{loop})
			const length = 5 * time.Minute
			whole := limits.PerSecond * length.Seconds()
			// Two others request more than there is, and one requests a call in a minute.
			made := b.run(length, append(append([]*caller{loop}, objects("quiet", 1, time.Minute)...), append(objects("a", 500, time.Second), objects("b", 500, time.Second)...)...))
			for _, namespace := range []string{"a", "b", "loops"} {
				if got := float64(made[namespace]); got < 0.9*whole/3-5 || got > 1.1*whole/3+5 {
					t.Errorf("of %v calls %q makes %v, want a third", whole, namespace, got)
				}
			}
			if made["quiet"] < 4 {
				t.Errorf("a namespace that requests a call in a minute makes %d in five", made["quiet"])
			}
		})
	}
}

func TestNamespaceAloneHasTheWholeRate(t *testing.T) {
	t.Parallel()
	limits := driver.Limits{PerSecond: 2, Burst: 30}
	for name, others := range map[string][]*caller{
		"while nobody else calls": nil,
		// The lists of the inventory are for all namespaces.
		"beside the lists of the account": objects("", 1, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, limits)
			alone := append([]*caller{{namespace: "alone", loops: true}}, others...)
			if got := b.run(time.Nanosecond, alone)["alone"]; got != limits.Burst {
				t.Errorf("%d calls at once, want %d", got, limits.Burst)
			}
			made := b.run(10*time.Minute, alone)
			if sum := made["alone"] + made[""]; sum < 1190 || made[""] > 11 {
				t.Errorf("%d calls beside %d lists in ten minutes, want 1200 together", made["alone"], made[""])
			}
			if others != nil && made[""] < 8 {
				t.Errorf("%d lists in ten minutes", made[""])
			}
		})
	}
}

func TestShareOfAnIdleNamespaceEnds(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{PerSecond: 2, Burst: 30})
	loop := []*caller{{namespace: "loops", loops: true}}
	b.run(time.Second, loop)
	if err := b.Do("leaves", func() error { return nil }); !driver.IsRateLimited(err) {
		t.Fatalf("got %v, want a RateLimitedError", err)
	}
	b.run(waitMin+time.Second, loop)
	if got := b.run(time.Minute, loop)["loops"]; got < 119 || len(b.rate.shares) != 1 {
		t.Errorf("%d calls in a minute and %d shares, want 120 and 1", got, len(b.rate.shares))
	}
	b.now = b.now.Add(time.Hour)
	if err := b.Do("another", func() error { return nil }); err != nil || len(b.rate.shares) != 0 {
		t.Errorf("got %v, and %d shares are kept", err, len(b.rate.shares))
	}
}

// TestManyNamespacesWaitTheirTurn has more namespaces than calls that the bucket holds.
func TestManyNamespacesWaitTheirTurn(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{PerSecond: 2, Burst: 3})
	var callers []*caller
	for n := range 50 {
		callers = append(callers, objects(fmt.Sprint("team-", n), 3, time.Second)...)
	}
	made := b.run(10*time.Minute, callers) // 1200 calls, 24 for each
	for n := range 50 {
		if got := made[fmt.Sprint("team-", n)]; got < 12 || got > 36 {
			t.Errorf("namespace %d makes %d calls, want about 24", n, got)
		}
	}
}

func TestSharesOfTheRateAreBounded(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{PerSecond: 1, Burst: 1})
	for n := range 2 * maxShares {
		_ = b.Do(fmt.Sprint(n), func() error { return nil })
	}
	if got := len(b.rate.shares); got > maxShares {
		t.Errorf("%d shares are kept, want %d at most", got, maxShares)
	}
}

// EC2 limits each kind of call by itself: what one namespace calls too often may be what no other does.
func TestRateLimitOfOneNamespacePausesNoOther(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	limited := func() error {
		return &driver.RateLimitedError{RetryAfter: time.Minute, Err: errors.New("slow down")}
	}
	succeeds := func() error { return nil }
	_ = b.Do("team-a", limited)
	if err := b.Do("team-b", succeeds); err != nil {
		t.Errorf("team-b: got %v", err)
	}
	if err := b.Do("team-a", succeeds); driver.RetryAfter(err) != time.Minute {
		t.Errorf("team-a: got %v after %s, want a RateLimitedError after a minute", err, driver.RetryAfter(err))
	}
	_ = b.Do("team-b", limited)
	if err := b.Do("team-c", succeeds); driver.RetryAfter(err) != time.Minute {
		t.Errorf("the cloud limits the calls of two namespaces, and team-c gets %v after %s", err, driver.RetryAfter(err))
	}
	b.now = b.now.Add(time.Minute)
	if err := b.Do("team-c", succeeds); err != nil {
		t.Errorf("after the pause: got %v", err)
	}
}
