// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/runtime/quantity"
)

// Reasons of refusals.
const (
	// ReasonFrozen means that the owner is frozen, for an overshoot or by an operator.
	ReasonFrozen = "Frozen"
	// ReasonUnreachable means that an API server does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonNotClaimed means that another management cluster acts on the workload cluster, or may do so.
	ReasonNotClaimed = "NotClaimed"
	// ReasonOvershoot means that there would be more Machines than replicas, surge and margin allow.
	ReasonOvershoot = "Overshoot"
	// ReasonMaxPending means that enough Machines have not joined the cluster yet.
	ReasonMaxPending = "MaxPending"
	// ReasonTooManyUnhealthy means that so many are unhealthy that replacing them would not help.
	ReasonTooManyUnhealthy = "TooManyUnhealthy"
	// ReasonFailureDomainDown means that a whole failure domain is unhealthy.
	ReasonFailureDomainDown = "FailureDomainDown"
	// ReasonBudgetUsed means that enough Machines are being replaced already.
	ReasonBudgetUsed = "BudgetUsed"
)

// deleteManually is what to do despite a refusal to replace.
const deleteManually = "to replace one anyway, delete the Machine"

func wouldOvershoot(owner Owner, most int) *Refusal {
	return &Refusal{ReasonOvershoot, fmt.Sprintf(
		"%s may have at most %s, for %s, a surge of %d and the margin of --safety-up or a MachinePolicy: look who else creates Machines for it, or delete the surplus",
		owner.Title, quantity.Of(most, "Machine"), quantity.Of(owner.Desired, "replica"), owner.Surge)}
}

func tooManyPending(where string, p policy.Settings, field string, most int) *Refusal {
	return &Refusal{ReasonMaxPending, fmt.Sprintf(
		"%s may have at most %s (MachinePolicy %q, spec.creation.%s): more follow as these join; if they do not, see their conditions",
		where, quantity.Of(most, "pending Machine"), p.Name, field)}
}

func tooManyUnhealthy(unhealthy, all int, p policy.Settings) *Refusal {
	return &Refusal{ReasonTooManyUnhealthy, fmt.Sprintf(
		"%d of %s %s unhealthy, more than %s %s: look for a common cause such as the network; nothing is replaced until fewer are; %s",
		unhealthy, quantity.Of(all, "Machine"), quantity.Verb(unhealthy, "is", "are"), source(p, "stopAboveUnhealthy"), p.StopAbove, deleteManually)}
}

func domainDown(name string, unhealthy int) *Refusal {
	return &Refusal{ReasonFailureDomainDown, fmt.Sprintf(
		"All %d Machines in failure domain %s are unhealthy: look at the failure domain; nothing is replaced there until one is healthy; to replace one anyway, annotate it with %s, or delete the Machine",
		unhealthy, name, clusterv1.RemediateMachineAnnotation)}
}

func budgetUsed(where, field string, share policy.IntOrPercent, most int) *Refusal {
	if most == 0 {
		return &Refusal{ReasonBudgetUsed, fmt.Sprintf("%s may have no Machines replaced (%s %s); %s", where, field, share, deleteManually)}
	}
	return &Refusal{ReasonBudgetUsed, fmt.Sprintf(
		"%s may have at most %s replaced at once (%s %s): waiting until those under way have gone and the new ones have been healthy for a while; if that lasts, see their conditions",
		where, quantity.Of(most, "Machine"), field, share)}
}

// source names the MachinePolicy and field of a limit.
func source(p policy.Settings, field string) string {
	if p.Name == "" {
		return "the default " + field
	}
	return fmt.Sprintf("MachinePolicy %q, spec.replacement.%s", p.Name, field)
}
