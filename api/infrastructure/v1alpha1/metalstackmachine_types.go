// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetalStackMachineSpec is what an allocated machine of metal-stack should be. It is immutable: to change it, create a template
// of another name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="self.privateNetworks.exists(n, n.partition == self.partition)",message="privateNetworks must have the network of the partition"
// +kubebuilder:validation:XValidation:rule="!has(self.fallbacks) || self.fallbacks.all(f, !has(f.partition) || self.privateNetworks.exists(n, n.partition == f.partition))",message="privateNetworks must have the network of the partition of each fallback"
// +kubebuilder:validation:XValidation:rule="!has(self.networks) || self.networks.all(n, !self.privateNetworks.exists(p, p.networkID == n.networkID))",message="networks are those beside the private network of a partition, which is in privateNetworks"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networks) == has(oldSelf.networks) && (!has(self.networks) || self.networks == oldSelf.networks)",message="networks are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.ips) == has(oldSelf.ips) && (!has(self.ips) || self.ips == oldSelf.ips)",message="ips are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sshKeys) == has(oldSelf.sshKeys) && (!has(self.sshKeys) || self.sshKeys == oldSelf.sshKeys)",message="sshKeys are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementTags) == has(oldSelf.placementTags) && (!has(self.placementTags) || self.placementTags == oldSelf.placementTags)",message="placementTags are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.filesystemLayout) == has(oldSelf.filesystemLayout) && (!has(self.filesystemLayout) || self.filesystemLayout == oldSelf.filesystemLayout)",message="filesystemLayout is immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dnsServers) == has(oldSelf.dnsServers) && (!has(self.dnsServers) || self.dnsServers == oldSelf.dnsServers)",message="dnsServers are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.ntpServers) == has(oldSelf.ntpServers) && (!has(self.ntpServers) || self.ntpServers == oldSelf.ntpServers)",message="ntpServers are immutable: roll out a new MetalStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new MetalStackMachineTemplate instead"
type MetalStackMachineSpec struct {
	// providerID is the identifier that the Node has, too, metal://<partition>/<machine ID>. It is set by the provider; set it
	// yourself only to adopt a machine of metal-stack that was allocated for this one, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the keys METAL_API_URL and METAL_API_HMAC or METAL_API_TOKEN.
	// Without it the provider uses its own environment. Immutable, but the Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// project is the ID of the project that the machine is allocated for. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="project is immutable: roll out a new MetalStackMachineTemplate instead"
	Project string `json:"project,omitempty"`

	// partition is the ID of the partition of the machine, unless the Machine names a failure domain, which wins. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="partition is immutable: roll out a new MetalStackMachineTemplate instead"
	Partition string `json:"partition,omitempty"`

	// size is the ID of the size of the machine, such as c1-xlarge-x86. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="size is immutable: roll out a new MetalStackMachineTemplate instead"
	Size string `json:"size,omitempty"`

	// image is the ID of the image: with its patch version, such as ubuntu-24.04.20260101, or without, such as ubuntu-24.04,
	// for the newest. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new MetalStackMachineTemplate instead"
	Image string `json:"image,omitempty"`

	// privateNetworks are the private networks, one for each partition in which machines may be. A machine has one address per
	// address family of the one in its partition. Immutable.
	// +required
	// +listType=map
	// +listMapKey=partition
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="privateNetworks are immutable: roll out a new MetalStackMachineTemplate instead"
	PrivateNetworks []MetalStackPrivateNetwork `json:"privateNetworks,omitempty"`

	// networks are further networks, such as the internet. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=networkID
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Networks []MetalStackNetwork `json:"networks,omitempty"`

	// ips are addresses of the project in these networks that each machine has, too. They are allocated beforehand, and stay
	// when the machine is freed if their type is static. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="it must be an IP address"
	IPs []string `json:"ips,omitempty"`

	// sshKeys are public keys, as lines of authorized_keys, of the user metal. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:Pattern=`^[-a-zA-Z0-9@.]+ [A-Za-z0-9+/=]+( [^\n\r]*)?$`
	SSHKeys []string `json:"sshKeys,omitempty"`

	// tags are further tags of the machine: names, or names and values as name=value. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('drover.io/') && !self.startsWith('machine.metal-stack.io/')",message="tags must not begin with drover.io/ or machine.metal-stack.io/, which Drover and metal-stack set"
	Tags []string `json:"tags,omitempty"`

	// placementTags are tags of the machine by which metal-stack spreads machines over racks: it prefers the racks with the
	// fewest machines of the project that have one of them. By default the machines of a Cluster are spread. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('drover.io/') && !self.startsWith('machine.metal-stack.io/')",message="tags must not begin with drover.io/ or machine.metal-stack.io/, which Drover and metal-stack set"
	PlacementTags []string `json:"placementTags,omitempty"`

	// filesystemLayout is the ID of the file system layout. By default metal-stack chooses the one for the size and the
	// image. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	FilesystemLayout string `json:"filesystemLayout,omitempty"`

	// dnsServers are the addresses of DNS servers. By default they are those of the partition. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="it must be an IP address"
	DNSServers []string `json:"dnsServers,omitempty"`

	// ntpServers are names or addresses of NTP servers. By default they are those of the partition. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9:]([-a-zA-Z0-9.:]*[a-zA-Z0-9:])?$`
	NTPServers []string `json:"ntpServers,omitempty"`

	// fallbacks are the alternatives, in order, if the partition has no free machine of the size or the project no quota. Those
	// with another partition than the Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []MetalStackFallback `json:"fallbacks,omitempty"`
}

// MetalStackPrivateNetwork is the private network of machines in a partition.
type MetalStackPrivateNetwork struct {
	// partition is the ID of the partition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	Partition string `json:"partition,omitempty"`

	// networkID is the ID of the network, which must belong to the project.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	NetworkID string `json:"networkID,omitempty"`
}

// MetalStackNetwork is a further network of a machine.
type MetalStackNetwork struct {
	// networkID is the ID of the network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	NetworkID string `json:"networkID,omitempty"`

	// autoAcquire makes metal-stack acquire an address in the network, which goes with the machine. Without it, ips must have
	// an address in the network. Default true.
	// +optional
	AutoAcquire *bool `json:"autoAcquire,omitempty"`
}

// MetalStackFallback is what to request instead. What it does not set stays as in the spec.
// +kubebuilder:validation:MinProperties=1
type MetalStackFallback struct {
	// size is the ID of another size.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	Size string `json:"size,omitempty"`

	// partition is the ID of another partition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$`
	Partition string `json:"partition,omitempty"`
}

// MetalStackMachine is a machine of metal-stack, from its allocation until it is freed.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=metalstackmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this MetalStackMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Partition the machine is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Size",type="string",JSONPath=".spec.size",priority=10,description="Requested size"
type MetalStackMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec MetalStackMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *MetalStackMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *MetalStackMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *MetalStackMachine) GetStatus() *MachineStatus { return &m.Status }

// MetalStackMachineList is a list of MetalStackMachines.
// +kubebuilder:object:root=true
type MetalStackMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MetalStackMachines.
	Items []MetalStackMachine `json:"items"`
}
