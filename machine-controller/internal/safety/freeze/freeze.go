// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package freeze decides when a MachineDeployment, or a MachineSet without one, has had too many Machines for so long that
// no more may be created or replaced. It is pure: package safety reads its input and keeps the label.
package freeze

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/runtime/quantity"
)

// Input is the state that a freeze is decided on.
type Input struct {
	Owner budget.Owner
	// Machines counts the Machines that are not being deleted.
	Machines int
	// Labelled is true if the owner has the label of a freeze.
	Labelled bool
	// Setting is the meaning of the annotation drover.io/freeze, and Value its value.
	Setting droverpolicyv1.FreezeSetting
	Value   string
	// OvershootSince is since when there have been too many, by the last Decision.
	OvershootSince time.Time
	Now            time.Time
	// Period is how long there must be too many.
	Period time.Duration
}

// Decision is whether an owner is frozen, and why.
type Decision struct {
	// Label is whether the owner is to have the label of a freeze.
	Label bool
	// OvershootSince belongs into the next Input.
	OvershootSince time.Time
	// RequeueAfter is when time alone will change the decision; 0 if it will not.
	RequeueAfter time.Duration
	// Reason and Message are for the condition Frozen; empty if the owner is not frozen.
	Reason, Message string
}

// Frozen reports whether Machines may be neither created nor replaced.
func (d Decision) Frozen() bool { return d.Message != "" }

// SetCondition sets the condition Frozen while the owner is frozen, and removes it otherwise.
func (d Decision) SetCondition(on conditions.Setter) {
	if !d.Frozen() {
		conditions.Delete(on, droverpolicyv1.FrozenCondition)
		return
	}
	conditions.Set(on, metav1.Condition{
		Type: droverpolicyv1.FrozenCondition, Status: metav1.ConditionTrue, Reason: d.Reason, Message: d.Message,
	})
}

// Decide decides whether an owner is frozen. A freeze begins once there have been too many Machines for a period, and ends
// once there are as few as Down below that; between the two limits nothing changes. The annotation takes precedence.
func Decide(settings policy.Settings, in Input) Decision {
	most := in.Owner.Ceiling(settings)
	end := max(most-settings.Down, in.Owner.Desired+in.Owner.Surge)
	var decision Decision
	switch {
	case in.Setting == droverpolicyv1.FreezeOn:
		decision.Reason, decision.Message = droverpolicyv1.FrozenByAnnotationReason, frozenByAnnotation(in.Owner)
	case in.Setting == droverpolicyv1.FreezeInvalid:
		decision.Reason, decision.Message = droverpolicyv1.FreezeInvalidReason, frozenByInvalidAnnotation(in.Owner, in.Value)
	case in.Setting == droverpolicyv1.FreezeOff:
	case in.Labelled && in.Machines > end:
		decision.Label = true
	case in.Machines > most:
		decision.OvershootSince = in.OvershootSince
		if decision.OvershootSince.IsZero() || decision.OvershootSince.After(in.Now) {
			decision.OvershootSince = in.Now
		}
		decision.Label = in.Now.Sub(decision.OvershootSince) >= in.Period
		if !decision.Label {
			decision.RequeueAfter = in.Period - in.Now.Sub(decision.OvershootSince)
		}
	}
	if decision.Label {
		decision.Reason, decision.Message = droverpolicyv1.OvershootReason, overshot(in.Owner, end)
	}
	return decision
}

// Refusal returns the refusal of an owner that is frozen by its label or annotation; nil if it is not frozen.
func Refusal(owner budget.Owner, labels, annotations map[string]string) *budget.Refusal {
	_, label := labels[droverpolicyv1.FrozenLabel]
	switch setting := droverpolicyv1.FreezeSettingOf(annotations); {
	case setting == droverpolicyv1.FreezeOn:
		return &budget.Refusal{Reason: budget.ReasonFrozen, Message: frozenByAnnotation(owner)}
	case setting == droverpolicyv1.FreezeInvalid:
		return &budget.Refusal{Reason: budget.ReasonFrozen, Message: frozenByInvalidAnnotation(owner, annotations[droverpolicyv1.FreezeAnnotation])}
	case setting == droverpolicyv1.FreezeOff || !label:
		return nil
	}
	return &budget.Refusal{Reason: budget.ReasonFrozen, Message: fmt.Sprintf("%s is frozen: it has had too many Machines; see its condition Frozen", owner.Title)}
}

func frozenByAnnotation(owner budget.Owner) string {
	return fmt.Sprintf("%s is frozen by its annotation %s: no Machines are created or replaced until it is removed", owner.Title, droverpolicyv1.FreezeAnnotation)
}

func frozenByInvalidAnnotation(owner budget.Owner, value string) string {
	return fmt.Sprintf("%s is frozen: its annotation %s is %q, which is neither \"true\" nor \"false\"; no Machines are created or replaced until it is one of these or removed", owner.Title, droverpolicyv1.FreezeAnnotation, value)
}

func overshot(owner budget.Owner, end int) string {
	return fmt.Sprintf(
		"%s has had too many Machines for %s and a surge of %d: no Machines are created or replaced until there are %d or fewer; look who else creates Machines for it, delete the surplus, or set the annotation %s to \"false\"",
		owner.Title, quantity.Of(owner.Desired, "replica"), owner.Surge, end, droverpolicyv1.FreezeAnnotation)
}
