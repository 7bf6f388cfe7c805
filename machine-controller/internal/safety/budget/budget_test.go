// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"

	"pgregory.net/rapid"

	"drover.io/machine-controller/internal/safety/policy"
)

func drawShare(t *rapid.T, name string) policy.IntOrPercent {
	if rapid.Bool().Draw(t, name+" is a percentage") {
		return policy.Percent(rapid.IntRange(0, 100).Draw(t, name))
	}
	return policy.Number(rapid.IntRange(0, 6).Draw(t, name))
}

// TestNeverMoreThanTheBudget has Machines become unhealthy, recover, join late or never, in several
// owners and failure domains in any order, and counts what is being replaced.
func TestNeverMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := policy.Default()
		settings.PerOwner, settings.PerCluster = drawShare(t, "per owner"), drawShare(t, "per cluster")
		settings.PerDomain, settings.StopAbove = drawShare(t, "per domain"), drawShare(t, "stop above")
		settings.PendingPerOwner = rapid.IntRange(0, 3).Draw(t, "pending per owner")
		settings.PendingPerCluster = rapid.IntRange(0, 4).Draw(t, "pending per cluster")
		w := newSimulator(settings, map[string]int{
			"a": rapid.IntRange(1, 8).Draw(t, "a"), "b": rapid.IntRange(0, 8).Draw(t, "b"), "c": rapid.IntRange(0, 3).Draw(t, "c"),
		}, "x", "y", "")
		w.joins = func(Machine) bool { return rapid.Bool().Draw(t, "joins") }
		order := rapid.Permutation([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 12).Draw(t, "ticks") {
			for i := range w.machines {
				if w.machines[i].Joined || rapid.Bool().Draw(t, "times out") {
					w.machines[i].Unhealthy = rapid.Bool().Draw(t, "ill")
				}
			}
			for _, owner := range order.Draw(t, "order") {
				checkedGrowth(t, w, owner)
				checkedReplacement(t, w, owner)
			}
			w.tick()
		}
	})
}

func checkedGrowth(t *rapid.T, w *simulator, owner string) {
	before := count(w.machines, Machine.pending)
	in := func(m Machine) bool { return m.Owner == owner && m.pending() }
	beforeIn := count(w.machines, in)
	w.grow(owner)
	if after, most := count(w.machines, Machine.pending), w.settings.PendingPerCluster; most > 0 && after > max(most, before) {
		t.Fatalf("%d pending in the Cluster, at most %d are allowed", after, most)
	}
	if after, most := count(w.machines, in), w.settings.PendingPerOwner; most > 0 && after > max(most, beforeIn) {
		t.Fatalf("%d pending in owner %s, at most %d are allowed", after, owner, most)
	}
}

// checkedReplacement counts in its own, simple way: Machines that are being replaced can
// only grow in number up to the budget.
func checkedReplacement(t *rapid.T, w *simulator, owner string) {
	replaced := func(m Machine) bool { return m.Replaced }
	ofOwner := func(m Machine) bool { return m.Replaced && m.Owner == owner }
	ill := count(w.machines, func(m Machine) bool { return m.Joined && m.Unhealthy && !m.scaledDown() })
	all := count(w.machines, func(m Machine) bool { return !m.scaledDown() })
	perDomain := map[string]int{}
	for _, m := range w.machines {
		perDomain[m.Domain]++
	}
	unhealthy := map[string]int{}
	for domain := range perDomain {
		in := func(m Machine) bool { return m.Domain == domain && m.healthy() }
		illIn := func(m Machine) bool { return m.Domain == domain && m.Joined && m.Unhealthy && !m.scaledDown() }
		if domain != "" && count(w.machines, in) == 0 && count(w.machines, illIn) > 1 && count(w.machines, Machine.healthy) > 0 {
			unhealthy[domain] = count(w.machines, func(m Machine) bool { return m.Domain == domain && m.Replaced })
		}
	}
	before := w.deleted
	w.remediate(owner)
	for domain, n := range unhealthy {
		if now := count(w.machines, func(m Machine) bool { return m.Domain == domain && m.Replaced }); now > n {
			t.Fatalf("replaced %d in failure domain %s, which is down", now-n, domain)
		}
	}
	if w.deleted == before {
		return
	}
	if len(unhealthy) == 0 && ill > w.settings.StopAbove.Of(all) {
		t.Fatalf("replaced %d while %d of %d are unhealthy, more than %s", w.deleted-before, ill, all, w.settings.StopAbove)
	}
	if n, most := count(w.machines, ofOwner), w.settings.PerOwner.Of(w.owners[owner].Desired); n > most {
		t.Fatalf("%d of owner %s are being replaced, at most %d may be", n, owner, most)
	}
	if n, most := count(w.machines, replaced), w.settings.PerCluster.Of(all); n > most {
		t.Fatalf("%d of the Cluster are being replaced, at most %d may be", n, most)
	}
	for domain, size := range perDomain {
		in := func(m Machine) bool { return m.Replaced && m.Domain == domain }
		if n, most := count(w.machines, in), w.settings.PerDomain.Of(size); domain != "" && n > most {
			t.Fatalf("%d of failure domain %s are being replaced, at most %d may be", n, domain, most)
		}
	}
}

// TestUnhealthyMachinesAreEventuallyReplaced checks that no budget above 0 leaves an unhealthy Machine
// waiting for ever, once what is created joins and nothing is held.
func TestUnhealthyMachinesAreEventuallyReplaced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := policy.Default()
		settings.StopAbove = policy.Percent(100)
		settings.PerOwner, settings.PerCluster = policy.Number(rapid.IntRange(1, 3).Draw(t, "per owner")), policy.Percent(rapid.IntRange(1, 100).Draw(t, "per cluster"))
		w := newSimulator(settings, map[string]int{"a": rapid.IntRange(1, 6).Draw(t, "a"), "b": rapid.IntRange(1, 6).Draw(t, "b")})
		for i := range w.machines {
			w.machines[i].Unhealthy = rapid.Bool().Draw(t, "ill")
			w.machines[i].Joined = rapid.Bool().Draw(t, "joined") || !w.machines[i].Unhealthy
		}
		for range 40 {
			for _, owner := range []string{"a", "b"} {
				w.grow(owner)
				w.remediate(owner)
			}
			w.tick()
		}
		if left := count(w.machines, func(m Machine) bool { return !m.healthy() }); left > 0 {
			t.Fatalf("%d Machines are not healthy after 40 ticks: %s", left, w.line())
		}
	})
}
