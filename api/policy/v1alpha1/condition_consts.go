// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReadyCondition is True while a MachinePolicy is in force for everything that it selects.
const ReadyCondition = "Ready"

// Reasons of the Ready condition.
const (
	// InForceReason means that every selected object follows the policy.
	InForceReason = "InForce"

	// NothingSelectedReason means that the selector selects nothing.
	NothingSelectedReason = "NothingSelected"

	// OverriddenReason means that an older policy selects some of the objects too, and is in force for them.
	OverriddenReason = "Overridden"

	// InvalidReason means that a field cannot be read; the message names it.
	InvalidReason = "Invalid"
)

// ConflictCondition is True while another policy selects some of the same objects. The oldest
// policy is in force for those; of two that are equally old, the first by name.
const ConflictCondition = "Conflict"

// Reasons of the Conflict condition.
const (
	// NoConflictReason means that no other policy selects any of the same objects.
	NoConflictReason = "NoConflict"

	// SelectedTwiceReason means that the policies in the message select some of the same objects.
	SelectedTwiceReason = "SelectedTwice"
)

// FrozenCondition of a MachineDeployment, or of a stand-alone MachineSet, is True while no
// Machines are created or replaced for it, and absent otherwise.
const FrozenCondition = "Frozen"

// Reasons of the Frozen condition.
const (
	// OvershootReason means that there are more Machines than requested.
	OvershootReason = "Overshoot"

	// FrozenByAnnotationReason means that the annotation drover.io/freeze is "true".
	FrozenByAnnotationReason = "FrozenByAnnotation"

	// FreezeInvalidReason means that the annotation drover.io/freeze has a value other than "true" and "false".
	FreezeInvalidReason = "FreezeInvalid"
)

// ProgressingCondition is a condition of MachineDeployments: False while one has been on its
// way to the desired state without progress for longer than its policy permits.
const ProgressingCondition = "Progressing"

const (
	// ProgressingReason means that Machines are on their way, or being replaced.
	ProgressingReason = "Progressing"

	// CompleteReason means that there is nothing left to roll out or to scale up.
	CompleteReason = "Complete"

	// ProgressDeadlineExceededReason means that there has been no progress for too long; the message has what is awaited.
	ProgressDeadlineExceededReason = "ProgressDeadlineExceeded"
)

// AnnotationsValidCondition of a MachineDeployment, MachineSet or Cluster is False while it has an annotation with
// a value that is not understood, and absent otherwise. The message names annotation, value and allowed values.
const AnnotationsValidCondition = "AnnotationsValid"

// InvalidValueReason means that an annotation has a value that is not understood.
const InvalidValueReason = "InvalidValue"

// ManagementClaimedCondition is a condition of Clusters: True while this management cluster is the one that acts on
// the workload cluster. While it is False, no Machine of the Cluster is created, replaced, scaled down, drained or
// deleted, and no orphaned instance is collected: a management cluster that was restored from a snapshot may run
// beside its original.
const ManagementClaimedCondition = "ManagementClaimed"

// Reasons of the ManagementClaimed condition.
const (
	// ClaimedReason means that the Lease in the workload cluster is held by this management cluster.
	ClaimedReason = "Claimed"

	// NotClaimedYetReason means that the workload cluster has not been reached since the controller started, or that its
	// claim could not be written.
	NotClaimedYetReason = "NotClaimedYet"

	// ClaimedElsewhereReason means that another management cluster holds the Lease. See TakeOverAnnotation.
	ClaimedElsewhereReason = "ClaimedElsewhere"

	// ClaimForbiddenReason means that the kubeconfig's user may not read and write the Lease.
	ClaimForbiddenReason = "ClaimForbidden"
)

// Conditions of MachineHealthChecks beside those of Cluster API.
const (
	// FailureDomainsHealthyCondition is False while all Machines of a failure domain are unhealthy.
	FailureDomainsHealthyCondition = "FailureDomainsHealthy"

	// TargetsExclusiveCondition is False while an older check selects some of the same Machines.
	TargetsExclusiveCondition = "TargetsExclusive"
)

// Reasons of the conditions of MachineHealthChecks beside those of Cluster API.
const (
	// FailureDomainsHealthyReason means that every failure domain has a healthy Machine.
	FailureDomainsHealthyReason = "FailureDomainsHealthy"

	// FailureDomainDownReason means that all Machines of the failure domains in the message are unhealthy.
	FailureDomainDownReason = "FailureDomainDown"

	// TargetsExclusiveReason means that no older check selects any of the same Machines.
	TargetsExclusiveReason = "TargetsExclusive"

	// TargetsOverlapReason means that the older checks in the message select some of the same Machines.
	TargetsOverlapReason = "TargetsOverlap"

	// BudgetUsedReason means that unhealthy Machines wait for the replacement of others.
	BudgetUsedReason = "ReplacementBudgetUsed"

	// NotConnectedReason means that no Machine is evaluated because there is no connection.
	NotConnectedReason = "NotConnected"

	// InvalidSpecReason means that a field of the spec cannot be used.
	InvalidSpecReason = "InvalidSpec"

	// ClusterMissingReason means that the Cluster does not exist.
	ClusterMissingReason = "ClusterDoesNotExist"
)

// BlockedReason of the conditions ScalingUp, ScalingDown, RollingOut and Deleting of a MachineDeployment or MachineSet, and of
// Deleting of a Cluster, means that it is True, and that nothing happens until what the message names has changed. Where something
// ends by itself, as Machines on their way join, or where a rollout is paused or Machines are replaced by hand, the reason is
// Cluster API's own.
const BlockedReason = "Blocked"

// RolledBackCondition of a MachineDeployment is False after a requested rollback has failed, until the spec changes or
// another attempt succeeds.
const RolledBackCondition = "RolledBack"

// Reasons of the RolledBack condition.
const (
	// RevisionNotKeptReason means that there is no such revision; the message lists those that exist.
	RevisionNotKeptReason = "RevisionNotKept"

	// RollbackRefusedReason means that the API server refuses the template of that revision.
	RollbackRefusedReason = "Refused"
)

// NodeSyncedCondition of a Machine is False while the workload cluster refuses labels, annotations or taints of its Node, or
// does not accept the first ones for another reason, and absent otherwise.
const NodeSyncedCondition = "NodeSynced"

// Reasons of the NodeSynced condition.
const (
	// NodeInitializationRefusedReason means that the first write to the Node is refused or fails, as by a webhook, so that the
	// Node keeps the taint node.cluster.x-k8s.io/uninitialized and no pod is scheduled to it: the Machine is not ready.
	NodeInitializationRefusedReason = "NodeInitializationRefused"

	// NodeSyncRefusedReason means that the Node has outdated labels, annotations or taints; the Machine may be ready.
	NodeSyncRefusedReason = "NodeSyncRefused"
)

// Reasons of conditions that mirror the object of a provider.
const (
	// ForeignObjectReason means that a referenced object belongs to something other than the object that refers to it.
	ForeignObjectReason = "BelongsToAnother"

	// InvalidReferenceReason means that a reference names a kind that is not allowed there.
	InvalidReferenceReason = "InvalidReference"

	// NoInfrastructureReferenceReason means that a Cluster refers to no infrastructure, which counts as ready.
	NoInfrastructureReferenceReason = "NoInfrastructureReference"
)

// RestrictedOnNodeAnnotation on a Machine lists, with commas, what the controller has put on its Node that a kubelet may
// not change: keys of labels in the domains of Kubernetes, and taints as key:effect. Only these are taken
// off again. The lists in annotations of the Node, which upstream keeps there, are for root on the host to change.
const RestrictedOnNodeAnnotation = "drover.io/restricted-on-node"

// TakeOverAnnotation on a Cluster permits this management cluster to take the claim on the workload cluster over from the
// holder that is its value; the message of the ManagementClaimed condition has it. It is meant for a management
// cluster that was restored after its original was lost for good, and has no effect on any other holder.
const TakeOverAnnotation = "drover.io/take-over"
