// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VCDMachineSpec is what a virtual machine of VMware Cloud Director should be. It is immutable: to change it, create a template
// of another name and refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may change,
// so that a machine stays deletable when its Secret was renamed.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName)",message="credentialsSecretName may name another Secret and must not be added or removed: credentials of a Secret and those of the provider lead to different accounts"
// +kubebuilder:validation:XValidation:rule="has(self.sizingPolicy) || has(self.cpus) && has(self.memoryMB)",message="set cpus and memoryMB, or a sizingPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.coresPerSocket) || has(self.cpus) && self.cpus % self.coresPerSocket == 0",message="cpus must be a multiple of coresPerSocket"
// +kubebuilder:validation:XValidation:rule="has(self.templateVM) == has(oldSelf.templateVM) && (!has(self.templateVM) || self.templateVM == oldSelf.templateVM)",message="templateVM is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sizingPolicy) == has(oldSelf.sizingPolicy) && (!has(self.sizingPolicy) || self.sizingPolicy == oldSelf.sizingPolicy)",message="sizingPolicy is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementPolicy) == has(oldSelf.placementPolicy) && (!has(self.placementPolicy) || self.placementPolicy == oldSelf.placementPolicy)",message="placementPolicy is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpus) == has(oldSelf.cpus) && (!has(self.cpus) || self.cpus == oldSelf.cpus)",message="cpus are immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.coresPerSocket) == has(oldSelf.coresPerSocket) && (!has(self.coresPerSocket) || self.coresPerSocket == oldSelf.coresPerSocket)",message="coresPerSocket are immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.memoryMB) == has(oldSelf.memoryMB) && (!has(self.memoryMB) || self.memoryMB == oldSelf.memoryMB)",message="memoryMB is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.storageProfile) == has(oldSelf.storageProfile) && (!has(self.storageProfile) || self.storageProfile == oldSelf.storageProfile)",message="storageProfile is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.diskSizeGB) == has(oldSelf.diskSizeGB) && (!has(self.diskSizeGB) || self.diskSizeGB == oldSelf.diskSizeGB)",message="diskSizeGB is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.diskIOPS) == has(oldSelf.diskIOPS) && (!has(self.diskIOPS) || self.diskIOPS == oldSelf.diskIOPS)",message="diskIOPS are immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networks) == has(oldSelf.networks) && (!has(self.networks) || self.networks == oldSelf.networks)",message="networks are immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.guestCustomization) == has(oldSelf.guestCustomization) && (!has(self.guestCustomization) || self.guestCustomization == oldSelf.guestCustomization)",message="guestCustomization is immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.acceptEULAs) == has(oldSelf.acceptEULAs) && (!has(self.acceptEULAs) || self.acceptEULAs == oldSelf.acceptEULAs)",message="acceptEULAs are immutable: roll out a new VCDMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadata) == has(oldSelf.metadata) && (!has(self.metadata) || self.metadata == oldSelf.metadata)",message="metadata is immutable: roll out a new VCDMachineTemplate instead"
type VCDMachineSpec struct {
	// providerID is the identifier that the Node has, too, vmware-cloud-director://urn:vcloud:vm:<uuid>. It is set by the
	// provider; set it yourself only to adopt a virtual machine of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the keys url, organization and either apiToken or username and
	// password, and optionally ca.crt. Without it the provider's own environment counts. May be changed, to another Secret of the
	// same organization.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// vdc is the name of the virtual data center (VDC) of the organization. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vdc is immutable: roll out a new VCDMachineTemplate instead"
	VDC string `json:"vdc,omitempty"`

	// vApp is the name of the vApp in the VDC that the virtual machine is added to. It must exist, with the networks. Cloud
	// Director adds one virtual machine at a time to a vApp: give each MachineDeployment a vApp of its own where that is too slow.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vApp is immutable: roll out a new VCDMachineTemplate instead"
	VApp string `json:"vApp,omitempty"`

	// catalog is the name of the catalog that has the template. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="catalog is immutable: roll out a new VCDMachineTemplate instead"
	Catalog string `json:"catalog,omitempty"`

	// template is the name of the vApp template in the catalog. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: roll out a new VCDMachineTemplate instead"
	Template string `json:"template,omitempty"`

	// templateVM is the name of the virtual machine in the template. Default: the only one that it has. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	TemplateVM string `json:"templateVM,omitempty"`

	// sizingPolicy is the name of a sizing policy of the VDC. cpus and memoryMB override what it sets, as far as it allows that.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SizingPolicy string `json:"sizingPolicy,omitempty"`

	// placementPolicy is the name of a placement policy of the VDC, unless the Machine names a failure domain, which is the name of
	// one and wins. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	PlacementPolicy string `json:"placementPolicy,omitempty"`

	// cpus is the number of virtual CPUs. Default: that of the sizing policy. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	CPUs int32 `json:"cpus,omitempty"`

	// coresPerSocket is the number of cores of each virtual socket. Default: that of the sizing policy or the template. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	CoresPerSocket int32 `json:"coresPerSocket,omitempty"`

	// memoryMB is the memory in MiB, a multiple of 4. Default: that of the sizing policy. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=25165824
	// +kubebuilder:validation:MultipleOf=4
	MemoryMB int64 `json:"memoryMB,omitempty"`

	// storageProfile is the name of the storage profile of the VDC for the virtual machine and its disks. Default: that of the VDC.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	StorageProfile string `json:"storageProfile,omitempty"`

	// diskSizeGB is the size of the first disk in GiB; it can only be larger than that of the template. Default: that of the
	// template. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63488
	DiskSizeGB int64 `json:"diskSizeGB,omitempty"`

	// diskIOPS limits the first disk. Default: what the storage profile sets. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	DiskIOPS int64 `json:"diskIOPS,omitempty"`

	// networks are the network interfaces, the primary one first. Default: those of the template. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Networks []VCDNetwork `json:"networks,omitempty"`

	// guestCustomization is whether VMware Tools customize the guest before its first boot, which sets addresses that Cloud Director
	// allocates and the name of the computer. Default: true if a network has the ipAllocationMode POOL or MANUAL. Immutable.
	// +optional
	GuestCustomization *bool `json:"guestCustomization,omitempty"`

	// acceptEULAs is whether the end-user licence agreements of the template are accepted; without that, a template that has
	// any is refused. Immutable.
	// +optional
	AcceptEULAs *bool `json:"acceptEULAs,omitempty"`

	// metadata are entries of the virtual machine, beside those of Drover. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() >= 1 && key.size() <= 256 && !key.startsWith('drover.io.'))",message="keys have 1 to 256 characters, and those with the prefix drover.io. are Drover's own"
	Metadata map[string]VCDMetadataValue `json:"metadata,omitempty"`
}

// VCDMetadataValue is the value of an entry of metadata.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1000
type VCDMetadataValue string

// VCDNetwork is a network interface of a virtual machine.
// +kubebuilder:validation:XValidation:rule="has(self.ipAddress) == (has(self.ipAllocationMode) && self.ipAllocationMode == 'MANUAL')",message="an ipAddress is for the ipAllocationMode MANUAL, which needs one"
type VCDNetwork struct {
	// name is the name of a network of the vApp.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// ipAllocationMode is DHCP, POOL for an address of the network's pool, MANUAL for ipAddress, or NONE. Default DHCP.
	// +optional
	// +default="DHCP"
	// +kubebuilder:validation:Enum=DHCP;POOL;MANUAL;NONE
	IPAllocationMode string `json:"ipAllocationMode,omitempty"`

	// ipAddress is the address of the interface with the mode MANUAL. Each machine needs another one.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="ipAddress is an IP address"
	IPAddress string `json:"ipAddress,omitempty"`

	// adapterType is the type of the interface, such as VMXNET3 or E1000E. Default VMXNET3.
	// +optional
	// +default="VMXNET3"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AdapterType string `json:"adapterType,omitempty"`
}

// VCDMachine is a virtual machine of VMware Cloud Director.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=vcdmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this VCDMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type VCDMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec VCDMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *VCDMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *VCDMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *VCDMachine) GetStatus() *MachineStatus { return &m.Status }

// VCDMachineList is a list of VCDMachines.
// +kubebuilder:object:root=true
type VCDMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the VCDMachines.
	Items []VCDMachine `json:"items"`
}
