// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// VSphereCloneMode is how a virtual machine is cloned.
// +kubebuilder:validation:Enum=Full;Linked
type VSphereCloneMode string

// The clone modes.
const (
	// VSphereFullClone gives the virtual machine disks of its own.
	VSphereFullClone VSphereCloneMode = "Full"
	// VSphereLinkedClone shares the disks of a snapshot: quick, and bound to the template's datastore.
	VSphereLinkedClone VSphereCloneMode = "Linked"
)

// VSphereValue is the value of a custom attribute or an advanced parameter.
// +kubebuilder:validation:MaxLength=4096
type VSphereValue string

// VSpherePlacement is where a virtual machine goes. Names may be inventory paths.
type VSpherePlacement struct {
	// folder is the folder for the virtual machine. Default: the datacenter's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="folder is immutable: roll out a new VSphereMachineTemplate instead"
	Folder string `json:"folder,omitempty"`

	// computeCluster is the cluster to run in. Default: that of the resource pool or host. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="computeCluster is immutable: roll out a new VSphereMachineTemplate instead"
	ComputeCluster string `json:"computeCluster,omitempty"`

	// resourcePool is the pool to take resources from; a bare name is looked for in computeCluster.
	// Default: the root pool of the cluster or host. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="resourcePool is immutable: roll out a new VSphereMachineTemplate instead"
	ResourcePool string `json:"resourcePool,omitempty"`

	// host is the host to start on; DRS may move the virtual machine later. Default: DRS chooses. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="host is immutable: roll out a new VSphereMachineTemplate instead"
	Host string `json:"host,omitempty"`

	// datastore holds the disks. Default: that of the template. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="datastore is immutable: roll out a new VSphereMachineTemplate instead"
	Datastore string `json:"datastore,omitempty"`

	// datastoreCluster holds the disks in the datastore that Storage DRS recommends. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="datastoreCluster is immutable: roll out a new VSphereMachineTemplate instead"
	DatastoreCluster string `json:"datastoreCluster,omitempty"`

	// storagePolicy is the name of the storage policy for every disk, which is also how disks are
	// encrypted. Default: the datastore's. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="storagePolicy is immutable: roll out a new VSphereMachineTemplate instead"
	StoragePolicy string `json:"storagePolicy,omitempty"`
}

// VSphereFailureDomain is one place to spread machines over.
// +kubebuilder:validation:XValidation:rule="!has(self.datastore) || !has(self.datastoreCluster)",message="datastore and datastoreCluster exclude each other"
type VSphereFailureDomain struct {
	// name is the value of the Machine's failureDomain.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	VSpherePlacement `json:",inline"`
}

// VSphereDiskProvisioning is how the space of a disk is taken.
// +kubebuilder:validation:Enum=Thin;Thick;EagerlyZeroed
type VSphereDiskProvisioning string

// The ways to take a disk's space.
const (
	// VSphereThin takes space as it is written.
	VSphereThin VSphereDiskProvisioning = "Thin"
	// VSphereThick takes all space at once.
	VSphereThick VSphereDiskProvisioning = "Thick"
	// VSphereEagerlyZeroed takes all space at once and wipes it.
	VSphereEagerlyZeroed VSphereDiskProvisioning = "EagerlyZeroed"
)

// VSphereDisk is an empty disk.
type VSphereDisk struct {
	// sizeGiB is the size.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63488
	SizeGiB int64 `json:"sizeGiB,omitempty"`

	// provisioning is Thin, Thick or EagerlyZeroed. Default Thin.
	// +optional
	// +default="Thin"
	Provisioning VSphereDiskProvisioning `json:"provisioning,omitempty"`
}

// VSphereNetwork is a network card. Addresses are passed to cloud-init; with Ignition they belong into the
// Ignition configuration. Without dhcp4, dhcp6 and addresses the card uses DHCP for IPv4.
// +kubebuilder:validation:XValidation:rule="has(self.addresses) || (!has(self.gateway4) && !has(self.gateway6))",message="a gateway needs addresses"
type VSphereNetwork struct {
	// name is the name or inventory path of the port group or network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`

	// adapter is the kind of card. Default vmxnet3.
	// +optional
	// +default="vmxnet3"
	// +kubebuilder:validation:Enum=vmxnet3;e1000e;sriov
	Adapter string `json:"adapter,omitempty"`

	// macAddress is the card's address. Default: vSphere chooses.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`
	MACAddress string `json:"macAddress,omitempty"`

	// dhcp4 requests an IPv4 address by DHCP.
	// +optional
	DHCP4 *bool `json:"dhcp4,omitempty"`

	// dhcp6 requests an IPv6 address by DHCP.
	// +optional
	DHCP6 *bool `json:"dhcp6,omitempty"`

	// addresses are static addresses with prefix lengths, such as 10.0.0.5/24. They make sense for one
	// machine only: a template with them must not be scaled beyond one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="an address needs its prefix length, such as 10.0.0.5/24"
	Addresses []string `json:"addresses,omitempty"`

	// gateway4 is the IPv4 default gateway.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="gateway4 must be an IPv4 address"
	Gateway4 string `json:"gateway4,omitempty"`

	// gateway6 is the IPv6 default gateway.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="gateway6 must be an IPv6 address"
	Gateway6 string `json:"gateway6,omitempty"`

	// nameservers are DNS servers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	Nameservers []string `json:"nameservers,omitempty"`

	// searchDomains are DNS search domains.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	SearchDomains []string `json:"searchDomains,omitempty"`

	// mtu is the largest packet.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=9190
	MTU int32 `json:"mtu,omitempty"`
}
