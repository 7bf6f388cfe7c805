// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

// Kind is what an Action does.
type Kind string

const (
	// CreateCurrent creates the MachineSet of the wanted template with To replicas.
	CreateCurrent Kind = "CreateCurrent"
	// Scale sets spec.replicas of a MachineSet from From to To.
	Scale Kind = "Scale"
	// Record writes the size annotations of a MachineSet whose size stays as it is.
	Record Kind = "Record"
	// DisableCreate disables the creation of Machines by a MachineSet.
	DisableCreate Kind = "DisableCreate"
	// EnableCreate enables it again.
	EnableCreate Kind = "EnableCreate"
	// Delete deletes a MachineSet.
	Delete Kind = "Delete"
)

// Action is one write of the controller.
type Action struct {
	Kind Kind
	// Set is the name of the MachineSet; empty for CreateCurrent.
	Set string
	// From and To are spec.replicas before and after; zero where the size stays.
	From, To int32
	// Reason is for an event and the log.
	Reason string
}

// Decision is the result of Plan.
type Decision struct {
	// Actions are the writes to do, in the order in which they read best.
	Actions []Action
	// SizeAnnotations is the content of the annotations of every written MachineSet.
	SizeAnnotations SizeAnnotations
	// RollingOut is true while a MachineSet other than the current one has or
	// is to have Machines, or while there is no current one.
	RollingOut bool
	// Complete is true once the current MachineSet has exactly the wanted
	// Machines, all available, and no other has any.
	Complete bool
	// Wait is what an unfinished rollout waits for; its zero value means
	// that it is not waiting.
	Wait Wait
}

// Wait is the reason why an unfinished rollout has nothing to do now.
type Wait struct {
	On WaitReason
	// Message describes what is awaited and from which component.
	Message string
}

// WaitReason classifies what a rollout waits for.
type WaitReason string

const (
	// WaitPaused means that spec.paused is true.
	WaitPaused WaitReason = "Paused"
	// WaitBlocked means that State.Blocked forbids to replace Machines.
	WaitBlocked WaitReason = "Blocked"
	// WaitingForDeletion means that Machines must be deleted by a user (OnDelete).
	WaitingForDeletion WaitReason = "WaitingForDeletion"
	// WaitingForCache means that the cache does not show the last write yet.
	WaitingForCache WaitReason = "WaitingForCache"
	// WaitingForMachineSet means that a MachineSet is creating or deleting Machines.
	WaitingForMachineSet WaitReason = "WaitingForMachineSet"
	// WaitingForNewMachines means that Machines of the wanted template are not available:
	// a broken template stops here.
	WaitingForNewMachines WaitReason = "WaitingForNewMachines"
	// WaitingForAvailability means that too few Machines are available to go on.
	WaitingForAvailability WaitReason = "WaitingForAvailability"
)
