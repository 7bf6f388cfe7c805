// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Target is one Machine that a MachineHealthCheck selects.
type Target struct {
	Name    string
	Finding Finding
	// Zone is its failure domain; empty where the cloud has none.
	Zone string
	// Group names the budget that its replacement takes a place of; empty if it cannot be replaced.
	Group string
	// Marked means that it is marked for replacement already, Holds that it uses a place of the budget.
	Marked, Holds bool
	// NotBefore is when it may be replaced; zero is at once.
	NotBefore time.Time
	Created   time.Time
}

// Group is the replacement budget of one MachineDeployment, or of what else owns Machines.
type Group struct {
	Limit, InFlight int
}

// PlanInput is all that Plan weighs.
type PlanInput struct {
	Targets []Target
	Groups  map[string]Group
	Trigger Trigger
	Now     time.Time
}

// WaitReason is why an unhealthy Machine is not replaced now.
type WaitReason string

// The reasons, in the order in which they are checked.
const (
	OutsideTrigger         WaitReason = "the number of unhealthy Machines is outside spec.remediation.triggerIf"
	FailureDomainUnhealthy WaitReason = "every Machine in its failure domain is unhealthy"
	NoController           WaitReason = "no controller owns it"
	BackOff                WaitReason = "the Machine that it replaced failed too"
	BudgetExhausted        WaitReason = "as many Machines as allowed are being replaced"
)

// Decision is what to do about the targets.
type Decision struct {
	// Remediate are the Machines to be replaced, marked already or not. A
	// marked Machine that is not among them is to be unmarked.
	Remediate map[string]bool
	// Held are the unhealthy Machines that must wait, and why.
	Held map[string]WaitReason
	// Expected, Healthy and Unhealthy count the targets. Machines that are about to be
	// found unhealthy count as such, those that start or are being deleted do not.
	Expected, Healthy, Unhealthy int
	// Restricted means that the trigger forbids every replacement.
	Restricted bool
	// Zones are the failure domains that are down, Full the groups that have no place left
	// for Machines that wait, both sorted.
	Zones, Full []string
	// Allowed is how many more Machines could be replaced at once.
	Allowed int
	// Next is when time alone changes the decision; zero if it does not.
	Next time.Time
}

// Plan decides which of the targets are to be replaced.
func Plan(s PlanInput) Decision {
	d := Decision{Remediate: map[string]bool{}, Held: map[string]WaitReason{}, Expected: len(s.Targets)}
	for _, t := range s.Targets {
		d.Next = earlier(d.Next, t.Finding.Until)
		switch t.Finding.State {
		case Healthy:
			d.Healthy++
		case Suspect, Unhealthy:
			d.Unhealthy++
		}
	}
	d.Restricted = !s.Trigger.permits(d.Unhealthy)
	d.Zones = down(s.Targets)
	budgets := maps.Clone(s.Groups)
	for _, t := range inOrder(s.Targets) {
		d.place(t, budgets, s.Now)
	}
	slices.Sort(d.Full)
	d.Full = slices.Compact(d.Full)
	d.Allowed = left(s.Trigger, d, budgets)
	return d
}

// place finds an unhealthy target a place in its budget, or the reason why it has to wait.
func (d *Decision) place(t Target, budgets map[string]Group, now time.Time) {
	budget := budgets[t.Group]
	switch {
	case d.Restricted:
		d.Held[t.Name] = OutsideTrigger
	case slices.Contains(d.Zones, t.Zone) && !t.Finding.Requested():
		d.Held[t.Name] = FailureDomainUnhealthy
	case t.Group == "":
		d.Held[t.Name] = NoController
	case t.Marked:
		d.Remediate[t.Name] = true
	case now.Before(t.NotBefore) && !t.Finding.Requested():
		d.Held[t.Name] = BackOff
		d.Next = earlier(d.Next, t.NotBefore)
	case t.Holds && budget.Limit > 0: // it takes no new place, and frees its own only by being replaced
		d.Remediate[t.Name] = true
	case budget.InFlight < budget.Limit:
		d.Remediate[t.Name] = true
		budget.InFlight++
		budgets[t.Group] = budget
	default:
		d.Held[t.Name] = BudgetExhausted
		d.Full = append(d.Full, t.Group)
	}
}

// inOrder are the unhealthy targets: those whose replacement a user requested first, then the newest.
func inOrder(targets []Target) []Target {
	var unhealthy []Target
	for _, t := range targets {
		if t.Finding.State == Unhealthy {
			unhealthy = append(unhealthy, t)
		}
	}
	slices.SortFunc(unhealthy, func(a, b Target) int {
		switch {
		case a.Finding.Requested() && !b.Finding.Requested():
			return -1
		case b.Finding.Requested() && !a.Finding.Requested():
			return 1
		}
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	return unhealthy
}

// down are the failure domains in which at least two Machines have started and none of
// those is healthy.
func down(targets []Target) []string {
	started, unwell := map[string]int{}, map[string]int{}
	for _, t := range targets {
		switch t.Finding.State {
		case Healthy:
			started[t.Zone]++
		case Suspect, Unhealthy:
			started[t.Zone]++
			unwell[t.Zone]++
		}
	}
	var zones []string
	for zone, n := range started {
		if zone != "" && n >= 2 && n == unwell[zone] {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// left is how many more replacements the budgets and the trigger allow.
func left(trigger Trigger, d Decision, budgets map[string]Group) int {
	if d.Restricted {
		return 0
	}
	places := 0
	for _, budget := range budgets {
		places += max(0, budget.Limit-budget.InFlight)
	}
	if trigger.Most >= 0 {
		places = min(places, max(0, trigger.Most-d.Unhealthy))
	}
	return places
}
