// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// withdrawable are the reasons with which a request to the owner has had no consequence yet.
var withdrawable = []string{
	clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
	clusterv1.MachineSetMachineCannotBeRemediatedReason,
	clusterv1.MachineSetMachineRemediationDeferredReason,
}

// RemoveMark removes a mark that the owner has not acted upon. Remediation requests to external
// controllers end only when the Machine is healthy.
func RemoveMark(m *clusterv1.Machine) {
	isExternal := conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition)
	if !isExternal && slices.Contains(withdrawable, conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition)) {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	}
}

// Unmark removes all conditions of health checks from a Machine that no check evaluates any more. Its
// owner deletes only a Machine that is as it was read, so that even a mark on which it was about to
// act is removed in time. The reasons of another kind of owner are kept.
func Unmark(m *clusterv1.Machine) {
	if !m.DeletionTimestamp.IsZero() {
		return
	}
	conditions.Delete(m, clusterv1.MachineHealthCheckSucceededCondition)
	conditions.Delete(m, clusterv1.MachineExternallyRemediatedCondition)
	reason := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition)
	if reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason || slices.Contains(withdrawable, reason) {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	}
}

// HasConditions reports whether the Machine has a condition of a health check.
func HasConditions(m *clusterv1.Machine) bool {
	return conditions.Has(m, clusterv1.MachineHealthCheckSucceededCondition) || conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition)
}
