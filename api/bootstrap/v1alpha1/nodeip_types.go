// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// NodeIP chooses the addresses of the Node among those that the host has when the kubelet starts. Without interfaces and
// subnets they are those of the interface with the default route. Addresses of the scopes link and host, temporary,
// deprecated and tentative ones are not used.
// +kubebuilder:validation:XValidation:rule="!has(self.subnets) || self.ipFamilies.all(f, self.subnets.exists(s, s.contains(':') == (f == 'IPv6')))",message="must have a subnet of each of ipFamilies",fieldPath=".subnets"
// +kubebuilder:validation:XValidation:rule="!has(self.subnets) || self.subnets.all(s, self.ipFamilies.exists(f, s.contains(':') == (f == 'IPv6')))",message="must have no subnet of a family that is not in ipFamilies",fieldPath=".subnets"
type NodeIP struct {
	// ipFamilies are the families of which the Node has an address each, IPv4 and IPv6, the primary one first. A host
	// without an address of one of them does not join.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self[0] != self[1]",message="must not have the same family twice"
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	// interfaces are names of network interfaces, also alternative ones. The address is one of the first interface of these
	// that the host has, and no other is waited for. Default: any interface where subnets are set, otherwise that of the
	// default route with the lowest metric, for each family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=127
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._-]*$`
	Interfaces []string `json:"interfaces,omitempty"`

	// subnets are CIDR blocks such as 10.0.0.0/16. The address is one in the first block of its family in which the host
	// has any. Each family in ipFamilies needs a block. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())",message="must be CIDR blocks such as 10.0.0.0/16, without bits of a host"
	Subnets []string `json:"subnets,omitempty"`
}
