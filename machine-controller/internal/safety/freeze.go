// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"time"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// FreezeInput is what a freeze is decided on.
type FreezeInput struct {
	Owner Owner
	// Machines counts the Machines that are not being deleted.
	Machines int
	// Labelled is true if the owner carries the label of a freeze.
	Labelled bool
	// Order is what the annotation drover.io/freeze asks for, and Word its value.
	Order policyv1.FreezeOrder
	Value  string
	// OvershootSince is since when there have been too many, as the last FreezeDecision said.
	OvershootSince time.Time
	Now  time.Time
	// Period is how long there must be too many.
	Period time.Duration
}

// FreezeDecision is what became of a owner.
type FreezeDecision struct {
	// Label says whether the owner is to carry the label of a freeze.
	Label bool
	// OvershootSince is to be handed back with the next FreezeInput.
	OvershootSince time.Time
	// RequeueAfter is when time alone will change this; 0 if it will not.
	RequeueAfter time.Duration
	// Reason and Message are for the condition Frozen; empty if nothing is frozen.
	Reason, Message string
}

// Frozen reports whether Machines may be neither created nor replaced.
func (f FreezeDecision) Frozen() bool { return f.Message != "" }

// Freeze decides whether a owner is frozen. It freezes once there have been too many
// Machines for a period, and thaws once there are as few as Down below that; between the two
// it stays as it is. The operator's word goes before both.
func (g Gate) Freeze(c FreezeInput) FreezeDecision {
	most := g.Policy.ceiling(c.Owner)
	thaw := max(most-g.Policy.Down, c.Owner.Desired+c.Owner.Surge)
	var decision FreezeDecision
	switch {
	case c.Order == policyv1.FreezeOn:
		decision.Reason, decision.Message = policyv1.FrozenByAnnotationReason, frozenByAnnotation(c.Owner)
	case c.Order == policyv1.FreezeUnclear:
		decision.Reason, decision.Message = policyv1.FreezeUnclearReason, frozenByUnclearAnnotation(c.Owner, c.Value)
	case c.Order == policyv1.FreezeOff:
	case c.Labelled && c.Machines > thaw:
		decision.Label = true
	case c.Machines > most:
		decision.OvershootSince = c.OvershootSince
		if decision.OvershootSince.IsZero() || decision.OvershootSince.After(c.Now) {
			decision.OvershootSince = c.Now
		}
		decision.Label = c.Now.Sub(decision.OvershootSince) >= c.Period
		if !decision.Label {
			decision.RequeueAfter = c.Period - c.Now.Sub(decision.OvershootSince)
		}
	}
	if decision.Label {
		decision.Reason, decision.Message = policyv1.OvershootReason, overshot(c.Owner, thaw)
	}
	return decision
}

// FrozenRefusal is the refusal of a frozen owner, by the label and annotation it carries;
// nil if it is not frozen.
func FrozenRefusal(owner Owner, labels, annotations map[string]string) *Refusal {
	_, label := labels[policyv1.FrozenLabel]
	switch order := policyv1.FreezeOrderOf(annotations); {
	case order == policyv1.FreezeOn:
		return &Refusal{ReasonFrozen, frozenByAnnotation(owner)}
	case order == policyv1.FreezeUnclear:
		return &Refusal{ReasonFrozen, frozenByUnclearAnnotation(owner, annotations[policyv1.FreezeAnnotation])}
	case order == policyv1.FreezeOff || !label:
		return nil
	}
	return &Refusal{ReasonFrozen, fmt.Sprintf("%s is frozen: it has had too many Machines; see its condition Frozen", owner.Title)}
}

func frozenByAnnotation(owner Owner) string {
	return fmt.Sprintf("%s is frozen by its annotation %s: no Machines are created or replaced until it is removed", owner.Title, policyv1.FreezeAnnotation)
}

func frozenByUnclearAnnotation(owner Owner, value string) string {
	return fmt.Sprintf("%s is frozen: its annotation %s is %q, which is neither \"true\" nor \"false\"; no Machines are created or replaced until it is one of these or removed", owner.Title, policyv1.FreezeAnnotation, value)
}

func overshot(owner Owner, thaw int) string {
	return fmt.Sprintf(
		"%s has had too many Machines for %d replicas and a surge of %d: no Machines are created or replaced until there are %d or fewer; look who else creates Machines for it, delete the surplus, or set the annotation %s to \"false\"",
		owner.Title, owner.Desired, owner.Surge, thaw, policyv1.FreezeAnnotation)
}
