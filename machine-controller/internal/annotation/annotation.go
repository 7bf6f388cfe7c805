// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package annotation reads annotations by the rule that applies to each: some count by being present, whatever
// their value, others only with the value "true". It also finds the values that no rule understands. It writes
// nothing but the condition about those.
package annotation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Present reports whether the object has the annotation, whatever its value. In Cluster API that is the rule for
// paused, delete-machine, remediate-machine, skip-remediation, the excludes of drain and volume detachment, and
// deletion hooks: even "false" counts.
func Present(object metav1.Object, key string) bool {
	_, present := object.GetAnnotations()[key]
	return present
}

// IsTrue reports whether the annotation has the value "true". In Cluster API that is the rule for
// disable-machine-create, which every MachineSet of a MachineDeployment carries with "true" or "false".
func IsTrue(object metav1.Object, key string) bool {
	return object.GetAnnotations()[key] == "true"
}

// AssignProviderIDs on a Cluster, with the value "true", makes machine-controller write the providerID of its Machines to
// Nodes that have none, in place of a cloud controller manager.
const AssignProviderIDs = "drover.io/assign-provider-ids"

// AssignsProviderIDs reports whether the Cluster requests that.
func AssignsProviderIDs(cluster metav1.Object) bool { return IsTrue(cluster, AssignProviderIDs) }
