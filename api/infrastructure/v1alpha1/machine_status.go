// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// MachineFinalizer keeps an infrastructure machine until its instance is verified to be gone.
	MachineFinalizer = "infrastructure.drover.io/machine"

	// IdentityAnnotation records the UID that the instance was created under. It is written together
	// with the finalizer, before anything is created, and is kept across a move to another management
	// cluster, where the object gets a new UID but must keep its instance.
	IdentityAnnotation = "infrastructure.drover.io/identity"

	// ChoiceAnnotation records which of the configurations of a machine is requested: 0, or
	// without the annotation, the first. It is written before the cloud is called, so that after
	// a lost answer the same configuration is requested again.
	ChoiceAnnotation = "infrastructure.drover.io/choice"

	// AccountAnnotation records the account of the cloud that the instance is in, as status.account does. It is
	// written before anything is created and is kept across a move to another management cluster, where the status is
	// lost. Credentials that lead to another account are not used for this machine.
	AccountAnnotation = "infrastructure.drover.io/account"

	// JournalAnnotation records what the driver of a cloud without tags and idempotency tokens has requested there. It is
	// written before and after each request for the machine, by the provider only, and is kept across a move to another
	// management cluster.
	JournalAnnotation = "infrastructure.drover.io/journal"

	// ReleaseAnnotation removes a machine without its instance, if it is no longer known whether the instance
	// is this machine's. Its value is the providerID of the instance, which stays in the cloud and is the user's
	// from then on.
	ReleaseAnnotation = "infrastructure.drover.io/release-instance"

	// OwnCredentialsLabel on a Namespace permits machines and templates in it to use the provider's own credentials, if
	// its value is OwnCredentialsAllowed.
	OwnCredentialsLabel = "infrastructure.drover.io/own-credentials"

	// OwnCredentialsAllowed is the value of OwnCredentialsLabel.
	OwnCredentialsAllowed = "allowed"
)

// MachineStatus is the observed state of an infrastructure machine of any cloud.
// +kubebuilder:validation:MinProperties=1
type MachineStatus struct {
	// initialization reports when the machine's infrastructure is complete.
	// +optional
	Initialization MachineInitialization `json:"initialization,omitempty,omitzero"`

	// conditions are the machine's conditions: Ready, Paused and, where the cloud can look inside the
	// instance, HostJoined.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// addresses are the addresses of the instance.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// cloudAddresses are those of addresses that the cloud itself gave to the instance. The others are what the guest
	// reports, as VMware Tools do: root in the guest chooses them, so no certificate is approved for them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	CloudAddresses []string `json:"cloudAddresses,omitempty"`

	// failureDomain is the zone the instance was placed in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// instanceState is the state of the instance as last seen: Pending, Running, Stopping, Stopped,
	// Terminated or Missing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	InstanceState string `json:"instanceState,omitempty"`

	// account is the account, project or server of the cloud that the instance is in. It is written before the
	// instance is created; credentials that lead elsewhere are not used for this machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Account string `json:"account,omitempty"`
}

// MachineInitialization is the part of the contract that orders provisioning.
// +kubebuilder:validation:MinProperties=1
type MachineInitialization struct {
	// provisioned is true once the instance runs. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// MachineTemplateStatus reports whether machines can be created from a template, and their capacity, so that the
// cluster autoscaler can scale a group up from zero.
// +kubebuilder:validation:MinProperties=1
type MachineTemplateStatus struct {
	// conditions are the template's conditions: Ready is True while the spec can work, its instance type and
	// image exist, and these fit each other.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is the capacity of a machine made from this template.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo is the platform of a machine made from this template.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// NodeInfo is the platform of a machine.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the CPU architecture.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`

	// operatingSystem is the operating system, such as linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}
