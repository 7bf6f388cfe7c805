// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import "drover.io/machine-controller/internal/safety/policy"

// Decision is how many Machines may be created.
type Decision struct {
	Allowed int
	// Refusal is why not all of them; nil if all may be.
	Refusal *Refusal
}

// limit is one reason to create fewer Machines.
type limit func(g Gate, s State) (available int, refusal *Refusal)

// limits of creation; the first of the narrowest decides.
var limits = []limit{
	blocked,          // it is frozen, or an API server cannot be reached
	overshooting,     // there would be more than replicas, surge and margin
	pendingOfOwner,   // enough Machines of the owner have not joined yet
	pendingInCluster, // enough Machines of the Cluster have not joined yet
}

// unlimited is what is available where there is no limit.
const unlimited = int(^uint(0) >> 1)

// AllowCreation decides how many of the wanted Machines the owner may get now.
func (g Gate) AllowCreation(s State, want int) Decision {
	d := Decision{Allowed: max(0, want)}
	for _, limit := range limits {
		if available, refusal := limit(g, s); max(0, available) < d.Allowed {
			d = Decision{Allowed: max(0, available), Refusal: refusal}
		}
	}
	return d
}

func blocked(_ Gate, s State) (int, *Refusal) {
	if s.Blocked != nil {
		return 0, s.Blocked
	}
	return unlimited, nil
}

func overshooting(g Gate, s State) (int, *Refusal) {
	owner := s.Owners[s.Owner]
	most := owner.Ceiling(g.Policy)
	return most - count(s.Machines, func(m Machine) bool { return m.Owner == s.Owner && !m.Deleting }), wouldOvershoot(owner, most)
}

func pendingOfOwner(g Gate, s State) (int, *Refusal) {
	if g.Policy.PendingPerOwner == 0 {
		return unlimited, nil
	}
	pending := count(s.Machines, func(m Machine) bool { return m.Owner == s.Owner && m.pending() })
	return g.Policy.PendingPerOwner - pending, tooManyPending(s.Owners[s.Owner].Title, g.Policy, "maxPendingPerDeployment", g.Policy.PendingPerOwner)
}

func pendingInCluster(g Gate, s State) (int, *Refusal) {
	if g.Policy.PendingPerCluster == 0 {
		return unlimited, nil
	}
	pending := count(s.Machines, Machine.pending)
	return g.Policy.PendingPerCluster - pending, tooManyPending("the Cluster", g.Policy, "maxPendingPerCluster", g.Policy.PendingPerCluster)
}

// Ceiling is how many Machines the owner may have before it is frozen.
func (o Owner) Ceiling(settings policy.Settings) int { return o.Desired + o.Surge + settings.Up }

func count(machines []Machine, counts func(Machine) bool) int {
	n := 0
	for _, m := range machines {
		if counts(m) {
			n++
		}
	}
	return n
}
