// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget decides how many Machines of a Cluster may be created or replaced now. It is pure: a Gate decides on a
// State and returns numbers, names and refusals. Package safety reads that State and calls it.
package budget

import "drover.io/machine-controller/internal/safety/policy"

// Gate allows what the settings of a policy allow.
type Gate struct {
	Policy policy.Settings
}

// State is the state of one Cluster that a Gate decides on. It is never changed.
type State struct {
	// Owner is the key, in Owners, of the owner whose Machines are to be created or replaced.
	Owner string
	// Owners are the Cluster's by key. Only Owner is needed to create Machines where the policy has no limit for the
	// Cluster.
	Owners map[string]Owner
	// Machines of the Cluster, or of Owner alone where that is enough.
	Machines []Machine
	// Blocked is why nothing may be created or replaced; nil if nothing blocks it.
	Blocked *Refusal
}

// Owner is a MachineDeployment, or a MachineSet without one.
type Owner struct {
	// Title is its kind and name, for messages.
	Title string
	// Desired is spec.replicas, Surge how many a rollout may add to it.
	Desired, Surge int
	// Unfilled counts the unhealthy Machines that are gone and have no replacement yet.
	Unfilled int
}

// Machine is one Machine of the Cluster.
type Machine struct {
	Name string
	// Owner is its key in State.Owners; empty for a Machine without one.
	Owner string
	// Domain is its failure domain; may be empty.
	Domain string
	// Joined is true once it has a Node.
	Joined bool
	// Deleting is true once its deletion is accepted.
	Deleting bool
	// Unhealthy is true if it has failed a health check or its Node is not ready.
	Unhealthy bool
	// Requested is true if an operator has requested its replacement.
	Requested bool
	// Replaced is true if it is being deleted because it is unhealthy.
	Replaced bool
	// Proving is true for a replacement that has not been healthy for long enough, and during external remediation.
	Proving bool
}

// pending Machines have not joined the Cluster yet.
func (m Machine) pending() bool { return !m.Joined && !m.Deleting }

// healthy Machines have joined and pass their checks.
func (m Machine) healthy() bool { return m.Joined && !m.Deleting && !m.Unhealthy }

// beingReplaced Machines count towards the budgets.
func (m Machine) beingReplaced() bool { return m.Replaced || (m.Proving && !m.Deleting) }

// scaledDown Machines are being deleted by a scale-down or a rollout.
func (m Machine) scaledDown() bool { return m.Deleting && !m.Replaced }

// Refusal is why something may not be done now, and what to do about it.
type Refusal struct {
	// Reason is one word; Message never changes while the cause stays the same.
	Reason, Message string
}
