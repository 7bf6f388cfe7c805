// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package managementclaim reads from a Cluster whether this management cluster is the one that acts on the workload
// cluster. A management cluster that was restored from a snapshot may run beside its original. machine-controller writes
// the condition ManagementClaimed; with another core there is none, and everything is permitted.
package managementclaim

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// Message is the message of a condition for what waits for the claim.
const Message = "another management cluster acts on the workload cluster, or this one has not claimed it: see the condition ManagementClaimed of the Cluster"

// ClaimedElsewhere reports whether another management cluster acts on the workload cluster, or may do so: the machines
// that it created are not known here.
func ClaimedElsewhere(cluster *clusterv1.Cluster) bool {
	claimed := meta.FindStatusCondition(cluster.Status.Conditions, droverpolicyv1.ManagementClaimedCondition)
	return claimed != nil && claimed.Status != metav1.ConditionTrue
}

// Forbids reports whether nothing may be created, changed or restarted for a Cluster: it is claimed elsewhere. The first
// machines of a Cluster are created before there is a workload cluster to claim.
func Forbids(cluster *clusterv1.Cluster) bool {
	if cluster == nil || !ClaimedElsewhere(cluster) {
		return false
	}
	initialized := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	return initialized || meta.IsStatusConditionFalse(cluster.Status.Conditions, droverpolicyv1.ManagementClaimedCondition)
}
