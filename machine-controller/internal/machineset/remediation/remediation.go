// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package remediation decides which unhealthy Machines of a MachineSet are replaced next, and which new Machine replaces
// which. It is pure: the machineset controller deletes the Machines and records the result. The records themselves are in
// package health.
package remediation

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/health"
)

// maxInFlight is how many Machines of a set are replaced at once, whatever the budget is: an annotation of the set has a record
// of each, and all annotations of an object together have 256 KiB.
const maxInFlight = 1000

// Candidates returns the Machines that need remediation, in the order in which they are replaced: replacements that failed
// before they settled, which hold a place in the budget until then, those that a person annotated, then the newest. One that
// could not be deleted before is the last.
func Candidates(machines []*clusterv1.Machine) []*clusterv1.Machine {
	var candidates []*clusterv1.Machine
	for _, m := range machines {
		if Needed(m) {
			candidates = append(candidates, m)
		}
	}
	rank := func(m *clusterv1.Machine) int {
		switch {
		case health.RefusedByOwner(m):
			return 3
		case health.Unsettled(m):
			return 0
		case annotation.Present(m, clusterv1.RemediateMachineAnnotation):
			return 1
		}
		return 2
	}
	slices.SortFunc(candidates, func(a, b *clusterv1.Machine) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return candidates
}

// Needed reports whether the Machine is to be deleted because it is unhealthy.
func Needed(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && health.MarkedForOwner(m) && !health.Exempt(m)
}

// WithinBudget splits the candidates into those that the budget allows and the others.
func WithinBudget(candidates, machines []*clusterv1.Machine, inFlight []health.InFlightReplacement, limit int) (now, wait []*clusterv1.Machine) {
	places := min(max(0, min(limit, maxInFlight)-health.Busy(machines, inFlight)), len(candidates))
	return candidates[:places], candidates[places:]
}

// Replacements pairs each unfilled replacement with the oldest Machine that was created after it.
func Replacements(machines []*clusterv1.Machine, inFlight []health.InFlightReplacement) map[*clusterv1.Machine]health.Replacement {
	byAge := slices.SortedFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	pairs := map[*clusterv1.Machine]health.Replacement{}
	for _, v := range health.Unfilled(machines, inFlight) {
		for _, m := range byAge {
			_, replaces := health.ReplacementOf(m)
			_, paired := pairs[m]
			if !replaces && !paired && m.DeletionTimestamp.IsZero() && v.Newest.Before(&m.CreationTimestamp) {
				pairs[m] = health.Replacement{Machine: v.Machine, Attempt: v.Attempt}
				break
			}
		}
	}
	return pairs
}

// StillNeeded returns the replacements in flight that are still needed: those of Machines that are being deleted, and
// unfilled ones while the set lacks Machines. A Machine that is being deleted for another reason is not counted, however
// long its deletion takes.
func StillNeeded(inFlight []health.InFlightReplacement, machines []*clusterv1.Machine, desired int) []health.InFlightReplacement {
	unfilled := health.Unfilled(machines, inFlight)
	available := desired
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() || slices.ContainsFunc(inFlight, func(v health.InFlightReplacement) bool { return v.Machine == m.Name }) {
			available--
		}
	}
	var open []health.InFlightReplacement
	for _, v := range inFlight {
		leaving := slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
			return m.Name == v.Machine && (!m.DeletionTimestamp.IsZero() || health.MarkedForOwner(m))
		})
		if leaving {
			open = append(open, v)
		} else if available > 0 && slices.Contains(unfilled, v) {
			open = append(open, v)
			available--
		}
	}
	return open
}
