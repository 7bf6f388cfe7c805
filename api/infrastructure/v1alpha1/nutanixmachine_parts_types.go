// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// NutanixImage names a disk image of Prism Central.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.uuid)",message="exactly one of name and uuid must be set"
type NutanixImage struct {
	// name is the name of the image. Prism Central accepts several images of one name; then uuid is needed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// uuid is the UUID (extId) of the image.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`
	UUID string `json:"uuid,omitempty"`
}

// NutanixDiskSettings are the settings of a disk.
// +kubebuilder:validation:MinProperties=1
type NutanixDiskSettings struct {
	// sizeGiB is the size in units of 2^30 bytes. Default the size of the image.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB *int64 `json:"sizeGiB,omitempty"`

	// bus is the bus that the disk is attached to: SCSI, SATA, PCI or IDE. Default SCSI.
	// +optional
	// +kubebuilder:validation:Enum=SCSI;SATA;PCI;IDE
	Bus string `json:"bus,omitempty"`

	// storageContainer is the name or the UUID of a storage container of the cluster. Default that which the cluster chooses. A
	// name is looked up in each cluster of the fallbacks by itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	StorageContainer string `json:"storageContainer,omitempty"`

	// flashMode keeps the disk on flash storage. Default false.
	// +optional
	FlashMode *bool `json:"flashMode,omitempty"`
}

// NutanixDisk is a further disk, which is created empty.
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB)",message="sizeGiB must be set"
type NutanixDisk struct {
	// name identifies the disk in this list. Prism Central does not get it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	NutanixDiskSettings `json:",inline"`
}

// NutanixNetworkInterface is a network interface.
type NutanixNetworkInterface struct {
	// subnet is the name or the UUID of a subnet. A name must be that of one subnet in the cluster of the virtual machine, and is
	// looked up in each cluster of the fallbacks by itself.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	Subnet string `json:"subnet,omitempty"`

	// queues is the number of pairs of queues of the interface. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Queues *int32 `json:"queues,omitempty"`
}

// NutanixGPU is a GPU, as a cluster lists it among its physical and virtual GPU profiles.
type NutanixGPU struct {
	// mode is PassthroughGraphics, PassthroughCompute or Virtual.
	// +required
	// +kubebuilder:validation:Enum=PassthroughGraphics;PassthroughCompute;Virtual
	Mode string `json:"mode,omitempty"`

	// vendor is NVIDIA, Intel or AMD.
	// +required
	// +kubebuilder:validation:Enum=NVIDIA;Intel;AMD
	Vendor string `json:"vendor,omitempty"`

	// deviceID is the number of the device in the GPU profile of the cluster.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	DeviceID int32 `json:"deviceID,omitempty"`
}

// NutanixCategory is a category of Prism Central.
type NutanixCategory struct {
	// key is the key of the category.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('drover-')",message="keys that begin with drover- are the provider's own"
	Key string `json:"key,omitempty"`

	// value is the value of the category.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Value string `json:"value,omitempty"`
}

// NutanixFallback is what of the spec is different if a cluster has no capacity.
// +kubebuilder:validation:MinProperties=1
type NutanixFallback struct {
	// cluster is the name or the UUID of another cluster. Default that of the spec.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	Cluster string `json:"cluster,omitempty"`

	// vcpuSockets is another number of vCPU sockets.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	VCPUSockets *int32 `json:"vcpuSockets,omitempty"`

	// memoryMiB is another amount of memory, in units of 2^20 bytes.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=67108864
	MemoryMiB *int64 `json:"memoryMiB,omitempty"`
}
