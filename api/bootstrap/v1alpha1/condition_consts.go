// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// TokenReadyCondition is True while the bootstrap token is as it should be in the workload cluster: valid until
// the Node has joined, gone after that.
const TokenReadyCondition = "TokenReady"

// Reasons of the Ready and TokenReady conditions.
const (
	// DataSecretAvailableReason means that the bootstrap data exists.
	DataSecretAvailableReason = "DataSecretAvailable"

	// TokenManagedReason means that the bootstrap token is renewed until the Node has joined, and then deleted.
	TokenManagedReason = "Managed"

	// WaitingForMachineReason means that no Machine owns the BootstrapConfig yet.
	WaitingForMachineReason = "WaitingForMachine"

	// WaitingForClusterReason means that the Cluster does not exist, or lacks its infrastructure or endpoint.
	WaitingForClusterReason = "WaitingForCluster"

	// KubeconfigInvalidReason means that the kubeconfig Secret of the Cluster is missing or cannot be used.
	KubeconfigInvalidReason = "KubeconfigInvalid"

	// ClusterUnreachableReason means that the API server of the workload cluster does not answer.
	ClusterUnreachableReason = "ClusterUnreachable"

	// ClusterForbiddenReason means that the workload cluster refuses requests that are needed for machines to join.
	ClusterForbiddenReason = "ClusterForbidden"

	// ClaimedElsewhereReason means that another management cluster acts on the workload cluster.
	ClaimedElsewhereReason = "ClaimedElsewhere"

	// InvalidSpecReason means that a field cannot be made into bootstrap data; the message names it.
	InvalidSpecReason = "InvalidSpec"

	// WaitingForProfileReason means that the NodeProfile does not exist.
	WaitingForProfileReason = "WaitingForProfile"

	// ReleaseUnavailableReason means that the NodeProfile has no binaries for the version of the Machine, or that their
	// checksums cannot be read.
	ReleaseUnavailableReason = "ReleaseUnavailable"

	// NotMadeByKubeadmReason means that the workload cluster lacks what kubeadm join reads from it.
	NotMadeByKubeadmReason = "NotMadeByKubeadm"

	// DataSecretConflictReason means that a Secret of another owner has the name of the data Secret.
	DataSecretConflictReason = "DataSecretConflict"

	// RequestRefusedReason means that the management cluster refuses a request of the controller, for a quota of the
	// namespace, a policy or a missing permission; the message has the request and why.
	RequestRefusedReason = "RequestRefused"

	// DataSecretLostReason means that the data Secret is gone although its machine may still need the token in it.
	DataSecretLostReason = "DataSecretLost"
)
