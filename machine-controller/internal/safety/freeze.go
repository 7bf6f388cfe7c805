// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"time"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// Crowd is what a freeze is decided on.
type Crowd struct {
	Fleet Fleet
	// Alive counts the Machines that are not being deleted.
	Alive int
	// Frozen is true if the fleet carries the label of a freeze.
	Frozen bool
	// Word is the value of the annotation drover.io/freeze; empty without one.
	Word string
	// Over is since when there have been too many, as the last Frost said.
	Over time.Time
	Now  time.Time
	// Period is how long there must be too many.
	Period time.Duration
}

// Frost is what became of a fleet.
type Frost struct {
	// Label says whether the fleet is to carry the label of a freeze.
	Label bool
	// Over is to be handed back with the next Crowd.
	Over time.Time
	// Again is when time alone will change this; 0 if it will not.
	Again time.Duration
	// Reason and Message are for the condition Frozen; empty if nothing is frozen.
	Reason, Message string
}

// Frozen reports whether Machines may be neither created nor replaced.
func (f Frost) Frozen() bool { return f.Message != "" }

// Freeze decides whether a fleet is frozen. It freezes once there have been too many
// Machines for a period, and thaws once there are as few as Down below that; between the two
// it stays as it is. The operator's word goes before both.
func (g Gate) Freeze(c Crowd) Frost {
	most := g.Policy.ceiling(c.Fleet)
	thaw := max(most-g.Policy.Down, c.Fleet.Desired+c.Fleet.Surge)
	var frost Frost
	switch {
	case c.Word == "true":
		frost.Reason, frost.Message = policyv1.FrozenByAnnotationReason, frozenByAnnotation(c.Fleet)
	case c.Word == "false":
	case c.Frozen && c.Alive > thaw:
		frost.Label = true
	case c.Alive > most:
		frost.Over = c.Over
		if frost.Over.IsZero() || frost.Over.After(c.Now) {
			frost.Over = c.Now
		}
		frost.Label = c.Now.Sub(frost.Over) >= c.Period
		if !frost.Label {
			frost.Again = c.Period - c.Now.Sub(frost.Over)
		}
	}
	if frost.Label {
		frost.Reason, frost.Message = policyv1.OvershootReason, overshot(c.Fleet, thaw)
	}
	return frost
}

// FrozenRefusal is the refusal of a frozen fleet, by the label and annotation it carries;
// nil if it is not frozen.
func FrozenRefusal(fleet Fleet, labels, annotations map[string]string) *Refusal {
	_, label := labels[policyv1.FrozenLabel]
	switch word := annotations[policyv1.FreezeAnnotation]; {
	case word == "true":
		return &Refusal{ReasonFrozen, frozenByAnnotation(fleet)}
	case word == "false" || !label:
		return nil
	}
	return &Refusal{ReasonFrozen, fmt.Sprintf("%s is frozen: it has had too many Machines; see its condition Frozen", fleet.Title)}
}

func frozenByAnnotation(fleet Fleet) string {
	return fmt.Sprintf("%s is frozen by its annotation %s: no Machines are created or replaced until it is removed", fleet.Title, policyv1.FreezeAnnotation)
}

func overshot(fleet Fleet, thaw int) string {
	return fmt.Sprintf(
		"%s has had too many Machines for %d replicas and a surge of %d: no Machines are created or replaced until there are %d or fewer; look who else creates Machines for it, delete the surplus, or set the annotation %s to \"false\"",
		fleet.Title, fleet.Desired, fleet.Surge, thaw, policyv1.FreezeAnnotation)
}
