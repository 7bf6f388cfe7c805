// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package safety decides how many Machines may be made or replaced now. A Gate is pure: it
// is asked with a State and answers with numbers, names and words. The Guard gathers that
// State for a MachineSet and remembers what the cache does not show yet; FreezeDecision and Reach
// decide what is frozen. It neither creates nor deletes anything: the machineset,
// machinedeployment and machine controllers ask here before they act.
package safety

// Gate lets through what a policy allows.
type Gate struct {
	Policy Policy
}

// State is what a Gate looks at: one Cluster, and the owner that asks. It is never changed.
type State struct {
	// Fleet is the key, in Owners, of the one that asks.
	Owner string
	// Owners are the Cluster's by key. Only the one that asks is needed to create Machines
	// where the policy has no limit for the Cluster.
	Owners map[string]Owner
	// Machines of the Cluster, or of the owner alone where that is enough.
	Machines []Machine
	// Blocked is why nothing at all may be done; nil if nothing is in the way.
	Blocked *Refusal
}

// Owner is a MachineDeployment, or a MachineSet that no MachineDeployment owns.
type Owner struct {
	// Title is its kind and name, for messages.
	Title string
	// Desired is spec.replicas, Surge what a rollout may add to it.
	Desired, Surge int
	// Vacancies counts the places whose unhealthy Machine is gone and that no other has taken.
	Vacancies int
}

// Machine is what matters of one Machine.
type Machine struct {
	Name string
	// Fleet is its key in State.Owners; empty for a Machine that stands alone.
	Owner string
	// Domain is its failure domain; may be empty.
	Domain string
	// Joined is true once it has a Node.
	Joined bool
	// Deleting is true once its deletion is accepted.
	Deleting bool
	// Unhealthy is true if it has failed a health check or its Node is not ready.
	Unhealthy bool
	// Replaced is true if it is being deleted because it is unhealthy.
	Replaced bool
	// Proving is true for a replacement that has not been healthy for long enough, and for
	// one that is being mended from outside.
	Proving bool
}

// pending Machines are on their way into the Cluster.
func (m Machine) pending() bool { return !m.Joined && !m.Deleting }

// healthy Machines do their work.
func (m Machine) healthy() bool { return m.Joined && !m.Deleting && !m.Unhealthy }

// beingReplaced Machines have a place in the budgets.
func (m Machine) beingReplaced() bool { return m.Replaced || (m.Proving && !m.Deleting) }

// scaledDown Machines are deleted because somebody wanted fewer, or newer ones.
func (m Machine) scaledDown() bool { return m.Deleting && !m.Replaced }

// Refusal says why something may not be done now, and what to do about it.
type Refusal struct {
	// Reason is one word; Message never changes while the cause stays the same.
	Reason, Message string
}
