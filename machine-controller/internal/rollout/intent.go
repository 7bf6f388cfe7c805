// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

// Kind says what an Intent asks for.
type Kind string

const (
	// CreateCurrent creates the MachineSet of the wanted template with To replicas.
	CreateCurrent Kind = "CreateCurrent"
	// Scale sets spec.replicas of a MachineSet from From to To.
	Scale Kind = "Scale"
	// Record stamps a MachineSet whose size stays as it is.
	Record Kind = "Record"
	// DisableCreate tells a MachineSet to create no more Machines.
	DisableCreate Kind = "DisableCreate"
	// EnableCreate lets a MachineSet create Machines again.
	EnableCreate Kind = "EnableCreate"
	// Delete deletes a MachineSet.
	Delete Kind = "Delete"
)

// Intent is one write that the controller should do.
type Intent struct {
	Kind Kind
	// Set is the name of the MachineSet; empty for CreateCurrent.
	Set string
	// From and To are spec.replicas before and after; zero where the size stays.
	From, To int32
	// Reason says why, in words fit for an event.
	Reason string
}

// Decision is the answer of Plan.
type Decision struct {
	// Intents are the writes to do, in the order in which they read best.
	Intents []Intent
	// Stamp is what the annotations of every written MachineSet must say.
	Stamp Stamp
	// RollingOut is true while a MachineSet other than the current one has or
	// wants Machines, or while there is no current one.
	RollingOut bool
	// Complete is true once the current MachineSet has exactly the wanted
	// Machines, all available, and no other has any.
	Complete bool
	// Wait says what an unfinished rollout is waiting for; its zero value means
	// that it is not waiting.
	Wait Wait
}

// Wait is the reason why an unfinished rollout has nothing to do now.
type Wait struct {
	On WaitReason
	// Message says what is awaited and from whom.
	Message string
}

// WaitReason classifies what a rollout waits for.
type WaitReason string

const (
	// WaitPaused means that spec.paused holds the rollout.
	WaitPaused WaitReason = "Paused"
	// WaitBlocked means that the safety net lets nothing be replaced now.
	WaitBlocked WaitReason = "Held"
	// WaitDeletion means that somebody has to delete Machines (OnDelete).
	WaitDeletion WaitReason = "WaitingForDeletion"
	// WaitCache means that a write of ours has not come back yet.
	WaitCache WaitReason = "WaitingForCache"
	// WaitMachineSet means that a MachineSet is creating or deleting Machines.
	WaitMachineSet WaitReason = "WaitingForMachineSet"
	// WaitCurrent means that Machines of the wanted template are not available:
	// a broken template stops here.
	WaitCurrent WaitReason = "WaitingForNewMachines"
	// WaitAvailability means that too few Machines are available to go on.
	WaitAvailability WaitReason = "WaitingForAvailability"
)
