// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnexiaMachineSpec is what a virtual machine of Anexia should be. It is immutable: to change it, create a template of another
// name and refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may change, so that a
// machine stays deletable when its Secret was renamed.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialsSecretName) || has(self.credentialsSecretName)",message="credentialsSecretName may name another Secret and must not be removed: the provider's own credentials are for machines that were made with them"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.template) != has(self.templateID)",message="set exactly one of template and templateID"
// +kubebuilder:validation:XValidation:rule="!has(self.templateBuild) || has(self.template)",message="templateBuild needs template"
// +kubebuilder:validation:XValidation:rule="!has(self.sockets) || self.cpus % self.sockets == 0",message="cpus must be a multiple of sockets"
// +kubebuilder:validation:XValidation:rule="self.networks.exists(network, network.reserveAddress)",message="at least one network must reserve an address"
// +kubebuilder:validation:XValidation:rule="has(self.availabilityZoneID) == has(oldSelf.availabilityZoneID) && (!has(self.availabilityZoneID) || self.availabilityZoneID == oldSelf.availabilityZoneID)",message="availabilityZoneID is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)",message="template is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.templateBuild) == has(oldSelf.templateBuild) && (!has(self.templateBuild) || self.templateBuild == oldSelf.templateBuild)",message="templateBuild is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.templateID) == has(oldSelf.templateID) && (!has(self.templateID) || self.templateID == oldSelf.templateID)",message="templateID is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sockets) == has(oldSelf.sockets) && (!has(self.sockets) || self.sockets == oldSelf.sockets)",message="sockets is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpuPerformanceType) == has(oldSelf.cpuPerformanceType) && (!has(self.cpuPerformanceType) || self.cpuPerformanceType == oldSelf.cpuPerformanceType)",message="cpuPerformanceType is immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dnsServers) == has(oldSelf.dnsServers) && (!has(self.dnsServers) || self.dnsServers == oldSelf.dnsServers)",message="dnsServers are immutable: roll out a new AnexiaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sshPublicKey) == has(oldSelf.sshPublicKey) && (!has(self.sshPublicKey) || self.sshPublicKey == oldSelf.sshPublicKey)",message="sshPublicKey is immutable: roll out a new AnexiaMachineTemplate instead"
type AnexiaMachineSpec struct {
	// providerID is the identifier that the Node has, too, anexia://<identifier of the virtual machine>. It is set by
	// the provider; set it yourself only to adopt a virtual machine of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=73
	// +kubebuilder:validation:Pattern=`^anexia://[0-9A-Za-z-]+$`
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace whose key token holds an API token of the Anexia Engine.
	// Without it the provider's own environment variable ANEXIA_TOKEN counts. May be changed, to another Secret with a
	// token of the same account.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// locationID is the identifier of the location, such as 52b5f6b2fd3a4a7eaaedf1a7c019e9ea. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="locationID is immutable: roll out a new AnexiaMachineTemplate instead"
	LocationID string `json:"locationID,omitempty"`

	// availabilityZoneID is the identifier of an availability zone of the location, unless the Machine names a failure
	// domain, which wins. Default: the cloud's choice. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	AvailabilityZoneID string `json:"availabilityZoneID,omitempty"`

	// template is the name of a template of the location, such as Flatcar Linux Stable. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Template string `json:"template,omitempty"`

	// templateBuild is the build of template, such as b74. The cloud removes old builds after a while. Default: the one
	// with the highest number, which latest means, too. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TemplateBuild string `json:"templateBuild,omitempty"`

	// templateID is the identifier of one build of a template. The cloud removes old builds after a while. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	TemplateID string `json:"templateID,omitempty"`

	// cpus is the number of CPUs. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cpus is immutable: roll out a new AnexiaMachineTemplate instead"
	CPUs int32 `json:"cpus,omitempty"`

	// sockets is the number of sockets that the CPUs are spread over. Default: one for each CPU. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Sockets int32 `json:"sockets,omitempty"`

	// cpuPerformanceType is the performance of the CPUs, such as best-effort, standard, enterprise or performance. Default:
	// the cloud's, which is standard. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	CPUPerformanceType string `json:"cpuPerformanceType,omitempty"`

	// memoryMB is the memory in MB. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777216
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="memoryMB is immutable: roll out a new AnexiaMachineTemplate instead"
	MemoryMB int32 `json:"memoryMB,omitempty"`

	// disks are the disks of the virtual machine. The first one has the operating system. All go with it. Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="disks are immutable: roll out a new AnexiaMachineTemplate instead"
	Disks []AnexiaDisk `json:"disks,omitempty"`

	// networks are the network interfaces of the virtual machine, in their order. The account is identified by the VLAN of
	// the first one. Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networks are immutable: roll out a new AnexiaMachineTemplate instead"
	Networks []AnexiaNetwork `json:"networks,omitempty"`

	// dnsServers are the addresses of the name servers. Default: those of the template. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(server, isIP(server))",message="name servers are IP addresses"
	DNSServers []string `json:"dnsServers,omitempty"`

	// sshPublicKey may log in, as a line of authorized_keys. Default: a key whose private half nobody has, because the cloud
	// requires a key or a password. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[a-z0-9@.-]+ [0-9A-Za-z+/=]+( [^\r\n]*)?$`
	SSHPublicKey string `json:"sshPublicKey,omitempty"`
}

// AnexiaDisk is a disk of a virtual machine.
type AnexiaDisk struct {
	// sizeGB is the size in GB.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGB int32 `json:"sizeGB,omitempty"`

	// performanceType is the category of the disk, such as STD1, ENT2 or HPC1. Default: that of the location for the first
	// disk. It is required for the others.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PerformanceType string `json:"performanceType,omitempty"`
}

// AnexiaNetwork is a network interface of a virtual machine.
// +kubebuilder:validation:XValidation:rule="!has(self.prefixIDs) || self.reserveAddress",message="prefixIDs need reserveAddress"
type AnexiaNetwork struct {
	// vlanID is the identifier of the VLAN.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	VLANID string `json:"vlanID,omitempty"`

	// reserveAddress gives the interface an address that is free: one of each of prefixIDs, or one of the VLAN. Default
	// true.
	// +optional
	// +default=true
	ReserveAddress *bool `json:"reserveAddress,omitempty"`

	// prefixIDs are the identifiers of prefixes of the VLAN. The interface gets one address of each. Default: one address
	// of any prefix.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[0-9A-Za-z-]+$`
	PrefixIDs []string `json:"prefixIDs,omitempty"`

	// nicType is the type of the interface. The cloud does not finish a virtual machine with vmxnet3 any more. Default virtio.
	// +optional
	// +default="virtio"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	NICType string `json:"nicType,omitempty"`

	// bandwidthLimit limits the interface, in Mbit/s. Default: the cloud's.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	BandwidthLimit int32 `json:"bandwidthLimit,omitempty"`
}

// AnexiaMachine is a virtual machine of Anexia.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=anexiamachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this AnexiaMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the virtual machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Availability zone the virtual machine is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="CPUs",type="integer",JSONPath=".spec.cpus",priority=10,description="CPUs"
// +kubebuilder:printcolumn:name="Memory",type="integer",JSONPath=".spec.memoryMB",priority=10,description="Memory in MB"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type AnexiaMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec AnexiaMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *AnexiaMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *AnexiaMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *AnexiaMachine) GetStatus() *MachineStatus { return &m.Status }

// AnexiaMachineList is a list of AnexiaMachines.
// +kubebuilder:object:root=true
type AnexiaMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AnexiaMachines.
	Items []AnexiaMachine `json:"items"`
}
