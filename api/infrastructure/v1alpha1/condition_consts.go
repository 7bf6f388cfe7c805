// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Reasons that the Ready condition of machines and machine templates and the Progressing condition of RestartRemediations
// share: what an error of a cloud means.
const (
	// InvalidConfigurationReason means that the spec cannot work, or that the cloud lacks what it names.
	InvalidConfigurationReason = "InvalidConfiguration"

	// InstanceNotOwnedReason means that the instance belongs to another owner.
	InstanceNotOwnedReason = "InstanceNotOwned"

	// InstanceTagsMissingReason means that the instance lacks ownership tags, so that its owner is not known.
	InstanceTagsMissingReason = "InstanceTagsMissing"

	// AccountMismatchReason means that the credentials lead to another account than the one that the instance is in.
	AccountMismatchReason = "AccountMismatch"

	// UnauthorizedReason means that the cloud refused the credentials.
	UnauthorizedReason = "Unauthorized"

	// QuotaExceededReason means that the account's quota is used up.
	QuotaExceededReason = "QuotaExceeded"

	// InsufficientCapacityReason means that the cloud has no capacity for the instance type in the zone.
	InsufficientCapacityReason = "InsufficientCapacity"

	// RateLimitedReason means that the account calls the cloud too often.
	RateLimitedReason = "RateLimited"

	// InstancePendingReason means that the instance, or something that it needs, was created and is not ready yet.
	InstancePendingReason = "InstancePending"

	// CloudErrorReason means that the cloud failed in a way that may pass.
	CloudErrorReason = "CloudError"
)

// Further reasons of the Ready condition of machines.
const (
	// WaitingForMachineReason means that no Machine owns this object yet.
	WaitingForMachineReason = "WaitingForMachine"

	// WaitingForClusterReason means that the Cluster does not exist or its infrastructure is not provisioned.
	WaitingForClusterReason = "WaitingForClusterInfrastructure"

	// WaitingForManagementClaimReason means that another management cluster acts on the workload cluster, or that this one
	// has not claimed it yet, so no instance is created.
	WaitingForManagementClaimReason = "WaitingForManagementClaim"

	// ClusterUnknownReason means that the machine is being deleted and does not name its Cluster, so no instance can be
	// proven to be its own.
	ClusterUnknownReason = "ClusterUnknown"

	// IdentityUnknownReason means that the machine is being deleted, and neither its annotation nor its providerID
	// identifies its instance.
	IdentityUnknownReason = "IdentityUnknown"

	// WaitingForBootstrapReason means that the Machine does not name its bootstrap data yet.
	WaitingForBootstrapReason = "WaitingForBootstrapData"

	// BootstrapDataInvalidReason means that the bootstrap data cannot be read.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"

	// InstanceRunningReason means that the instance runs.
	InstanceRunningReason = "InstanceRunning"

	// EvictionRequestedReason means that the instance runs, and its host waits for it to be deleted.
	EvictionRequestedReason = "EvictionRequested"

	// InstanceStoppedReason means that the instance exists and does not run.
	InstanceStoppedReason = "InstanceStopped"

	// InstanceMissingReason means that the instance was deleted by others. Terminal: delete the Machine.
	InstanceMissingReason = "InstanceMissing"

	// ProviderIDNotStoredReason means that the instance exists and the API server refuses its providerID.
	ProviderIDNotStoredReason = "ProviderIDNotStored"

	// DeletingReason means that the instance is being deleted.
	DeletingReason = clusterv1.DeletingReason
)

// HostJoinedCondition is whether the host inside the instance joined its Cluster. It exists only for a cloud that can
// report it, and does not count for Ready: the instance may be fine.
const HostJoinedCondition = "HostJoined"

// Reasons of the HostJoined condition.
const (
	// JoinedReason means that the host registered its Node.
	JoinedReason = "Joined"

	// HostFailedReason means that the host failed.
	HostFailedReason = "HostFailed"

	// BootstrapFailedReason means that the bootstrap of the host ended with an error. Terminal: delete the Machine.
	BootstrapFailedReason = "BootstrapFailed"

	// BootstrapRunningReason means that a step of the bootstrap takes its time, or is retried.
	BootstrapRunningReason = "BootstrapRunning"

	// BootstrapNotStartedReason means that the console does not show that the bootstrap began.
	BootstrapNotStartedReason = "BootstrapNotStarted"

	// KubeletNotJoinedReason means that the bootstrap ended successfully, and the kubelet has not registered the Node.
	KubeletNotJoinedReason = "KubeletNotJoined"

	// ConsoleUnavailableReason means that the console cannot be read.
	ConsoleUnavailableReason = "ConsoleUnavailable"
)

// Further reasons of the Ready condition of machine templates.
const (
	// ValidReason means that the spec can work, and the cloud has what it names.
	ValidReason = "Valid"

	// ArchitectureMismatchReason means that the instance type cannot run the image.
	ArchitectureMismatchReason = "ArchitectureMismatch"
)

// ProgressingCondition of a RestartRemediation is True while a restart is under way, and False while nothing is done or can
// be done.
const ProgressingCondition = "Progressing"

// Further reasons of the Progressing condition.
const (
	// RestartingReason means that the restart is requested from the cloud.
	RestartingReason = "Restarting"

	// WaitingForHealthReason means that the cloud accepted the restart, and that the Machine has until the timeout to become
	// healthy.
	WaitingForHealthReason = "WaitingForHealth"

	// MachineNotUnhealthyReason means that no MachineHealthCheck reports the Machine as unhealthy, so it is not restarted.
	MachineNotUnhealthyReason = "MachineNotUnhealthy"

	// MachineDeletingReason means that the Machine, its infrastructure or its Cluster is being deleted.
	MachineDeletingReason = "MachineDeleting"

	// ClusterUnreachableReason means that the workload cluster does not answer, so nothing is done until it does.
	ClusterUnreachableReason = "ClusterUnreachable"

	// ClusterNotClaimedReason means that another management cluster acts on the workload cluster, or that this one has not
	// claimed it yet.
	ClusterNotClaimedReason = "ClusterNotClaimed"

	// ForeignMachineReason means that the Machine or its infrastructure is labelled for another provider's watch filter.
	ForeignMachineReason = "ForeignMachine"

	// RetriesSpentReason means that as many restarts as allowed did not help. Handed back.
	RetriesSpentReason = "RetriesSpent"

	// RestartNotSupportedReason means that the cloud has no restart. Handed back.
	RestartNotSupportedReason = "RestartNotSupported"
)
