// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/annotation"
)

// Limit is how many Machines of a MachineDeployment, or of whatever else owns Machines, may
// be replaced at once: remediation.maxInFlight, a percentage rounded up, or where there is
// none a tenth of the replicas and at least one. A value that cannot be read counts as none,
// and is an error that names the field.
func Limit(maxInFlight *intstr.IntOrString, replicas int) (int, error) {
	fallback := max(1, replicas/10)
	if maxInFlight == nil {
		return fallback, nil
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(maxInFlight, replicas, true)
	if err != nil || limit < 0 {
		return fallback, fmt.Errorf("spec.remediation.maxInFlight: %q is neither a number nor a percentage such as \"20%%\"", maxInFlight.String())
	}
	return limit, nil
}

// Exempt reports whether an annotation excludes the Machine from health checks: it is neither evaluated
// nor replaced.
func Exempt(m *clusterv1.Machine) bool {
	return annotation.Present(m, clusterv1.PausedAnnotation) || annotation.Present(m, clusterv1.MachineSkipRemediationAnnotation)
}

// Marked reports whether the Machine is to be replaced, by its owner or from outside.
func Marked(m *clusterv1.Machine) bool { return MarkedForOwner(m) || MarkedForOthers(m) }

// MarkedForOwner reports whether the Machine's owner is to replace it.
func MarkedForOwner(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// MarkedForOthers reports whether an external controller is to remediate the Machine.
func MarkedForOthers(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineExternallyRemediatedCondition)
}

// RefusedByOwner reports whether the owner has refused: the Machine is replaced by a rollout instead, or may not be deleted.
func RefusedByOwner(m *clusterv1.Machine) bool {
	return conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition) == clusterv1.MachineSetMachineCannotBeRemediatedReason
}

// Holds reports whether the Machine has a place in the budget: it is marked, or it is a
// replacement that has not settled. One that its owner has refused never frees a place by being
// replaced, so it has none.
func Holds(m *clusterv1.Machine) bool { return (Marked(m) || Unsettled(m)) && !RefusedByOwner(m) }

// InFlight counts the places of a budget that are taken: by Machines that hold one, and by
// those that are deleted and not replaced yet.
func InFlight(machines []*clusterv1.Machine, inFlight []InFlightReplacement) int {
	taken := len(Unfilled(machines, inFlight))
	for _, m := range machines {
		if Holds(m) {
			taken++
		}
	}
	return taken
}

// Busy is InFlight without the Machines that are marked and still wait to be deleted.
func Busy(machines []*clusterv1.Machine, inFlight []InFlightReplacement) int {
	busy := InFlight(machines, inFlight)
	for _, m := range machines {
		if Holds(m) && MarkedForOwner(m) && m.DeletionTimestamp.IsZero() {
			busy--
		}
	}
	return busy
}
