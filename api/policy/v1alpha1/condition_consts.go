// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReadyCondition is True while a MachinePolicy is in force for everything that it selects.
const ReadyCondition = "Ready"

// Reasons of the Ready condition.
const (
	// InForceReason means that every selected object follows the policy.
	InForceReason = "InForce"

	// NothingSelectedReason means that the selector selects nothing.
	NothingSelectedReason = "NothingSelected"

	// OverriddenReason means that an older policy selects some of the objects too, and is in force for them.
	OverriddenReason = "Overridden"

	// InvalidReason means that a field cannot be read; the message names it.
	InvalidReason = "Invalid"
)

// ConflictCondition is True while another policy selects some of the same objects. The oldest
// policy is in force for those; of two that are equally old, the first by name.
const ConflictCondition = "Conflict"

// Reasons of the Conflict condition.
const (
	// NoConflictReason means that no other policy selects any of the same objects.
	NoConflictReason = "NoConflict"

	// SelectedTwiceReason means that the policies in the message select some of the same objects.
	SelectedTwiceReason = "SelectedTwice"
)

// FrozenCondition of a MachineDeployment, or of a MachineSet that stands alone, is True while no
// Machines are created or replaced for it, and absent otherwise.
const FrozenCondition = "Frozen"

// Reasons of the Frozen condition.
const (
	// OvershootReason means that there are more Machines than anybody asked for.
	OvershootReason = "Overshoot"

	// FrozenByAnnotationReason means that the annotation drover.io/freeze says so.
	FrozenByAnnotationReason = "FrozenByAnnotation"
)

// ProgressingCondition is a condition of MachineDeployments: False while one has been on its
// way to what was asked for without progress for longer than its policy allows.
const ProgressingCondition = "Progressing"

const (
	// ProgressingReason means that Machines are on their way, or being replaced.
	ProgressingReason = "Progressing"

	// CompleteReason means that there is nothing left to roll out or to scale up.
	CompleteReason = "Complete"

	// ProgressDeadlineExceededReason means that there has been no progress for too long; the message says what is awaited.
	ProgressDeadlineExceededReason = "ProgressDeadlineExceeded"
)

// FrozenLabel is on a MachineDeployment, or a MachineSet that stands alone, while it is frozen
// for an overshoot. It is Drover's own record of the freeze; to freeze or thaw by hand, use
// FreezeAnnotation.
const FrozenLabel = "drover.io/frozen"

// FreezeAnnotation on a MachineDeployment, or a MachineSet that stands alone, is the operator's word on
// freezing: "true" freezes it for as long as the annotation is there, "false" keeps it from being frozen.
const FreezeAnnotation = "drover.io/freeze"
