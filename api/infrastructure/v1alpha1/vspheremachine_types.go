// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VSphereMachineSpec is what a virtual machine in vSphere should be. It is immutable: roll out another
// template instead. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="[has(self.credentialsSecretName), has(self.server), has(self.datacenter), has(self.snapshot), has(self.folder), has(self.resourcePool), has(self.computeCluster), has(self.host), has(self.datastore), has(self.datastoreCluster), has(self.storagePolicy), has(self.networks), has(self.coresPerSocket), has(self.diskGiB), has(self.disks), has(self.hardwareVersion), has(self.tags), has(self.customAttributes), has(self.extraConfig), has(self.antiAffinityGroup), has(self.vmGroup), has(self.failureDomains)] == [has(oldSelf.credentialsSecretName), has(oldSelf.server), has(oldSelf.datacenter), has(oldSelf.snapshot), has(oldSelf.folder), has(oldSelf.resourcePool), has(oldSelf.computeCluster), has(oldSelf.host), has(oldSelf.datastore), has(oldSelf.datastoreCluster), has(oldSelf.storagePolicy), has(oldSelf.networks), has(oldSelf.coresPerSocket), has(oldSelf.diskGiB), has(oldSelf.disks), has(oldSelf.hardwareVersion), has(oldSelf.tags), has(oldSelf.customAttributes), has(oldSelf.extraConfig), has(oldSelf.antiAffinityGroup), has(oldSelf.vmGroup), has(oldSelf.failureDomains)]",message="the spec is immutable but for providerID: roll out a new VSphereMachineTemplate instead of adding or removing a field"
// +kubebuilder:validation:XValidation:rule="!has(self.datastore) || !has(self.datastoreCluster)",message="datastore and datastoreCluster exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.cloneMode) || self.cloneMode != 'Linked' || !has(self.diskGiB)",message="a linked clone keeps the disk size of its template: drop diskGiB or use cloneMode Full"
// +kubebuilder:validation:XValidation:rule="!has(self.coresPerSocket) || !has(self.cpus) || self.cpus % self.coresPerSocket == 0",message="cpus must be a multiple of coresPerSocket"
// +kubebuilder:validation:XValidation:rule="!has(self.server) || has(self.credentialsSecretName)",message="server requires credentialsSecretName: the provider's own credentials go only to the provider's own server"
type VSphereMachineSpec struct {
	// providerID is the identifier that the Node has, too, vsphere://<BIOS UUID>. It is set by the
	// provider; set it yourself only to adopt a virtual machine of this machine that exists, as after a
	// restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is a Secret in the machine's namespace with username, password and, if the
	// spec does not name it, server; also ca.crt, thumbprint or insecure. Without it the provider's
	// environment is used. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="credentialsSecretName is immutable: roll out a new VSphereMachineTemplate instead"
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// server is the vCenter's host name or address, with a port if it is not 443. Default: that of the
	// credentials. It requires credentialsSecretName, because the provider's own credentials go only to the
	// provider's own server. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^/\s]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="server is immutable: roll out a new VSphereMachineTemplate instead"
	Server string `json:"server,omitempty"`

	// datacenter is the name or inventory path of the datacenter. Default: the only one there is. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="datacenter is immutable: roll out a new VSphereMachineTemplate instead"
	Datacenter string `json:"datacenter,omitempty"`

	// template is the name or inventory path of the template or virtual machine to clone. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: roll out a new VSphereMachineTemplate instead"
	Template string `json:"template,omitempty"`

	// cloneMode is Full for disks of its own or Linked for disks that share those of a snapshot of the
	// template. Default Full. Immutable.
	// +optional
	// +default="Full"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cloneMode is immutable: roll out a new VSphereMachineTemplate instead"
	CloneMode VSphereCloneMode `json:"cloneMode,omitempty"`

	// snapshot is the name of the template's snapshot to clone from. Default for linked clones: the
	// current one; for full clones: none. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="snapshot is immutable: roll out a new VSphereMachineTemplate instead"
	Snapshot string `json:"snapshot,omitempty"`

	VSpherePlacement `json:",inline"`

	// failureDomains are the placements for the failure domains of Machines. A value of a failure domain takes precedence
	// over the machine's own placement. Without any, a failure domain is the name of a compute cluster.
	// Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="failureDomains are immutable: roll out a new VSphereMachineTemplate instead"
	FailureDomains []VSphereFailureDomain `json:"failureDomains,omitempty"`

	// networks are the network cards, in order. Default: those of the template, by DHCP. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networks are immutable: roll out a new VSphereMachineTemplate instead"
	Networks []VSphereNetwork `json:"networks,omitempty"`

	// cpus is the number of virtual CPUs. Default 2. Immutable.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=768
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cpus is immutable: roll out a new VSphereMachineTemplate instead"
	CPUs int32 `json:"cpus,omitempty"`

	// coresPerSocket spreads the CPUs over sockets. Default: as the template. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=768
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="coresPerSocket is immutable: roll out a new VSphereMachineTemplate instead"
	CoresPerSocket int32 `json:"coresPerSocket,omitempty"`

	// memoryMiB is the memory, a multiple of 4. Default 4096. Immutable.
	// +optional
	// +default=4096
	// +kubebuilder:validation:Minimum=512
	// +kubebuilder:validation:Maximum=25165824
	// +kubebuilder:validation:MultipleOf=4
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="memoryMiB is immutable: roll out a new VSphereMachineTemplate instead"
	MemoryMiB int64 `json:"memoryMiB,omitempty"`

	// diskGiB grows the template's first disk to this size. Default: as the template. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63488
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="diskGiB is immutable: roll out a new VSphereMachineTemplate instead"
	DiskGiB int64 `json:"diskGiB,omitempty"`

	// disks are empty disks to add; they are deleted with the virtual machine. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="disks are immutable: roll out a new VSphereMachineTemplate instead"
	Disks []VSphereDisk `json:"disks,omitempty"`

	// hardwareVersion is the least virtual hardware version, such as 19 for vmx-19. Default: as the
	// template. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=7
	// +kubebuilder:validation:Maximum=99
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="hardwareVersion is immutable: roll out a new VSphereMachineTemplate instead"
	HardwareVersion int32 `json:"hardwareVersion,omitempty"`

	// tags are existing vSphere tags to attach, as "<category>/<tag>". Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[^/]+/[^/]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="tags are immutable: roll out a new VSphereMachineTemplate instead"
	Tags []string `json:"tags,omitempty"`

	// customAttributes are values of existing custom attributes, by name. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="customAttributes are immutable: roll out a new VSphereMachineTemplate instead"
	CustomAttributes map[string]VSphereValue `json:"customAttributes,omitempty"`

	// extraConfig are more advanced parameters of the virtual machine. Keys of guestinfo.userdata,
	// guestinfo.metadata, guestinfo.ignition and drover are the provider's. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="extraConfig is immutable: roll out a new VSphereMachineTemplate instead"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^(?i)(drover[.]|guestinfo[.](userdata|metadata|ignition))'))",message="keys that start with drover., guestinfo.userdata, guestinfo.metadata or guestinfo.ignition are the provider's, in whatever case"
	ExtraConfig map[string]VSphereValue `json:"extraConfig,omitempty"`

	// antiAffinityGroup keeps machines of one Cluster that name the same group on different hosts, by a
	// DRS rule of the compute cluster that comes and goes with them. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="antiAffinityGroup is immutable: roll out a new VSphereMachineTemplate instead"
	AntiAffinityGroup string `json:"antiAffinityGroup,omitempty"`

	// vmGroup is an existing DRS VM group of the compute cluster to join, for rules that tie virtual
	// machines to hosts. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vmGroup is immutable: roll out a new VSphereMachineTemplate instead"
	VMGroup string `json:"vmGroup,omitempty"`
}

// VSphereMachine is a virtual machine in vSphere.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=vspheremachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this VSphereMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the virtual machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Failure domain the virtual machine is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type VSphereMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec VSphereMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *VSphereMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *VSphereMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *VSphereMachine) GetStatus() *MachineStatus { return &m.Status }

// VSphereMachineList is a list of VSphereMachines.
// +kubebuilder:object:root=true
type VSphereMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the VSphereMachines.
	Items []VSphereMachine `json:"items"`
}
