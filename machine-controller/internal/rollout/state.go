// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// State is the input of Plan: one MachineDeployment and its MachineSets as they were observed. Plan never changes it.
type State struct {
	// Replicas is spec.replicas of the MachineDeployment.
	Replicas int32
	// Strategy is RollingUpdate or OnDelete; empty means RollingUpdate.
	Strategy clusterv1.MachineDeploymentRolloutStrategyType
	// Limits are maxSurge and maxUnavailable, resolved against Replicas.
	Limits Limits
	// Paused stops rollouts; only a change of Replicas is followed.
	Paused bool
	// Blocked is why nothing may be replaced now: the rollout removes no old Machines,
	// but a change of Replicas is followed. Empty if nothing blocks it.
	Blocked string
	// Deleting is true once the MachineDeployment has a deletion timestamp.
	Deleting bool
	// HistoryLimit is how many empty old MachineSets are kept after a rollout.
	HistoryLimit int32
	// Unseen names the MachineSets that were created, changed or deleted and for
	// which the cache does not show that yet. Nothing is decided then.
	Unseen []string
	// Sets are all MachineSets of the MachineDeployment, in any order.
	Sets []Set
}

// Set is one MachineSet as it was observed.
type Set struct {
	// Name of the MachineSet; unique within a State.
	Name string
	// Created orders the MachineSets by age; Name breaks ties.
	Created time.Time
	// Revision orders the history.
	Revision int64
	// Current is true for the one MachineSet that has the wanted template.
	Current bool

	// Replicas is spec.replicas.
	Replicas int32
	// Machines counts the Machines that are seen, those being deleted included.
	Machines int32
	// Reported is status.replicas. It may count Machines that are not seen yet, or
	// ones that are gone.
	Reported int32
	// Deleting counts the Machines that have a deletion timestamp.
	Deleting int32
	// Available counts the available Machines that are not being deleted.
	Available int32
	// Unhealthy counts the Machines, not being deleted, that failed a health
	// check or have an unhealthy Node. They may also be available.
	Unhealthy int32
	// DeleteAnnotated counts the Machines, not being deleted, that have the annotation
	// cluster.x-k8s.io/delete-machine.
	DeleteAnnotated int32

	// Recorded are the size annotations of the MachineSet.
	Recorded SizeAnnotations
	// CreateDisabled is true if the MachineSet may not create Machines.
	CreateDisabled bool
	// Terminating is true once the MachineSet has a deletion timestamp.
	Terminating bool
	// Unobserved is true while the machineset controller has not observed spec.
	Unobserved bool
}

// Empty reports whether the MachineSet has no Machines, and is to have none. Its size annotations are of no use: they are written
// again as soon as it is to have one.
func (s Set) Empty() bool { return s.Replicas == 0 && s.Machines == 0 && s.Reported == 0 }

// SizeAnnotations is what the MachineDeployment wanted when a MachineSet was last
// written: the annotations desired-replicas and max-replicas. A Set whose annotations
// differs has not followed the latest change of size yet.
type SizeAnnotations struct {
	// Desired is spec.replicas of the MachineDeployment.
	Desired int32
	// Max is Desired plus maxSurge. Zero with a Desired of zero means unknown.
	Max int32
}

// onDelete reports whether Machines are replaced only after a user has deleted them.
func (s State) onDelete() bool {
	return s.Strategy == clusterv1.OnDeleteMachineDeploymentStrategyType
}

// blocked reports whether nothing may be replaced now.
func (s State) blocked() bool {
	return s.Blocked != ""
}

// ceiling is how many Machines there may be at most.
func (s State) ceiling() int32 {
	if s.Replicas == 0 || s.onDelete() {
		return s.Replicas
	}
	return s.Replicas + s.Limits.Surge
}

// minAvailable is how many Machines must stay available.
func (s State) minAvailable() int32 {
	return max(s.Replicas-s.Limits.Unavailable, 0)
}

// live counts the Machines that are seen and not being deleted.
func (s Set) live() int32 {
	return s.Machines - s.Deleting
}

// liveAtMost is how many there may be: until the machineset controller has observed spec and counts the same Machines, those
// that are being deleted may be gone, and others be created.
func (s Set) liveAtMost() int32 {
	if s.Reported == s.Machines && !s.Unobserved {
		return s.live()
	}
	return max(s.live(), s.Reported)
}

// inProgress is true while the machineset controller creates or deletes Machines.
func (s Set) inProgress() bool {
	return s.Replicas != s.Machines || s.Reported != s.Machines || s.Deleting > 0
}
