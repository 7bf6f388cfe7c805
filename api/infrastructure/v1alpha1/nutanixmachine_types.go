// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NutanixMachineSpec is what a virtual machine on Nutanix AHV should be. It is immutable: to change it, create a template of
// another name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="!has(self.vtpm) || !self.vtpm || (has(self.bootType) && self.bootType != 'Legacy')",message="vtpm needs bootType UEFI or SecureBoot"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.vcpusPerSocket) == has(oldSelf.vcpusPerSocket) && (!has(self.vcpusPerSocket) || self.vcpusPerSocket == oldSelf.vcpusPerSocket)",message="vcpusPerSocket are immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpuPassthrough) == has(oldSelf.cpuPassthrough) && (!has(self.cpuPassthrough) || self.cpuPassthrough == oldSelf.cpuPassthrough)",message="cpuPassthrough is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.systemDisk) == has(oldSelf.systemDisk) && (!has(self.systemDisk) || self.systemDisk == oldSelf.systemDisk)",message="systemDisk is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dataDisks) == has(oldSelf.dataDisks) && (!has(self.dataDisks) || self.dataDisks == oldSelf.dataDisks)",message="dataDisks are immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.bootType) == has(oldSelf.bootType) && (!has(self.bootType) || self.bootType == oldSelf.bootType)",message="bootType is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.vtpm) == has(oldSelf.vtpm) && (!has(self.vtpm) || self.vtpm == oldSelf.vtpm)",message="vtpm is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) == has(oldSelf.gpus) && (!has(self.gpus) || self.gpus == oldSelf.gpus)",message="gpus are immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.projectID) == has(oldSelf.projectID) && (!has(self.projectID) || self.projectID == oldSelf.projectID)",message="projectID is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.categories) == has(oldSelf.categories) && (!has(self.categories) || self.categories == oldSelf.categories)",message="categories are immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.hardwareClockTimezone) == has(oldSelf.hardwareClockTimezone) && (!has(self.hardwareClockTimezone) || self.hardwareClockTimezone == oldSelf.hardwareClockTimezone)",message="hardwareClockTimezone is immutable: roll out a new NutanixMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new NutanixMachineTemplate instead"
type NutanixMachineSpec struct {
	// providerID is the identifier that the Node has, too, nutanix://<UUID of the virtual machine>. It is set by the provider; set
	// it yourself only to adopt a virtual machine of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the key NUTANIX_ENDPOINT, the host of Prism Central, and with
	// NUTANIX_USER and NUTANIX_PASSWORD, or NUTANIX_API_KEY. Without it the provider uses its own environment. Immutable, but the
	// Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// cluster is the name or the UUID of the cluster (Prism Element) of the virtual machine, unless the Machine names a failure
	// domain, which wins. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster is immutable: roll out a new NutanixMachineTemplate instead"
	Cluster string `json:"cluster,omitempty"`

	// vcpuSockets is the number of vCPU sockets. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vcpuSockets are immutable: roll out a new NutanixMachineTemplate instead"
	VCPUSockets int32 `json:"vcpuSockets,omitempty"`

	// vcpusPerSocket is the number of vCPUs of each socket. Default 1. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	VCPUsPerSocket *int32 `json:"vcpusPerSocket,omitempty"`

	// memoryMiB is the memory in units of 2^20 bytes. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=67108864
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="memoryMiB is immutable: roll out a new NutanixMachineTemplate instead"
	MemoryMiB int64 `json:"memoryMiB,omitempty"`

	// cpuPassthrough gives the guest all features of the host's CPU, after which the virtual machine cannot be migrated while it
	// runs. Default false. Immutable.
	// +optional
	CPUPassthrough *bool `json:"cpuPassthrough,omitempty"`

	// image is the disk image to boot. It must have cloud-init or Ignition. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new NutanixMachineTemplate instead"
	Image NutanixImage `json:"image,omitempty,omitzero"`

	// systemDisk changes the disk that is made from the image. Immutable.
	// +optional
	SystemDisk NutanixDiskSettings `json:"systemDisk,omitempty,omitzero"`

	// dataDisks are further disks. They are created empty and deleted with the virtual machine. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	DataDisks []NutanixDisk `json:"dataDisks,omitempty"`

	// networkInterfaces are the network interfaces, the primary one first. Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networkInterfaces are immutable: roll out a new NutanixMachineTemplate instead"
	NetworkInterfaces []NutanixNetworkInterface `json:"networkInterfaces,omitempty"`

	// bootType is Legacy, UEFI or SecureBoot, which is UEFI with secure boot. Default Legacy. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=Legacy;UEFI;SecureBoot
	BootType string `json:"bootType,omitempty"`

	// vtpm adds a virtual TPM. It needs UEFI. Default false. Immutable.
	// +optional
	VTPM *bool `json:"vtpm,omitempty"`

	// gpus are the GPUs of the virtual machine. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	GPUs []NutanixGPU `json:"gpus,omitempty"`

	// projectID is the UUID of the project of the virtual machine. It needs version 4.1 of the API. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`
	ProjectID string `json:"projectID,omitempty"`

	// categories are assigned to the virtual machine beside the provider's own. They must exist. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Categories []NutanixCategory `json:"categories,omitempty"`

	// hardwareClockTimezone is the time zone of the hardware clock, such as Europe/Berlin. Default UTC. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	HardwareClockTimezone string `json:"hardwareClockTimezone,omitempty"`

	// fallbacks are the alternatives, in order, if a cluster has no capacity for the spec. Those with another cluster than the
	// Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []NutanixFallback `json:"fallbacks,omitempty"`
}

// NutanixMachine is a virtual machine on Nutanix AHV.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nutanixmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this NutanixMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Prism Element cluster the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Sockets",type="integer",JSONPath=".spec.vcpuSockets",priority=10,description="Requested vCPU sockets"
type NutanixMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec NutanixMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *NutanixMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *NutanixMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *NutanixMachine) GetStatus() *MachineStatus { return &m.Status }

// NutanixMachineList is a list of NutanixMachines.
// +kubebuilder:object:root=true
type NutanixMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the NutanixMachines.
	Items []NutanixMachine `json:"items"`
}
