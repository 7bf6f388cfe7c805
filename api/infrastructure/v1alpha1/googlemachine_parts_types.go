// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GoogleLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9_-]*$`
type GoogleLabelValue string

// GoogleMetadataValue is the value of a metadata item.
// +kubebuilder:validation:MaxLength=16384
type GoogleMetadataValue string

// GoogleImage names an image, or the newest image of a family that is not deprecated.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.family)",message="exactly one of name and family must be set"
type GoogleImage struct {
	// name is the image's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// family is the image family, such as ubuntu-2404-lts-amd64. The newest image of it that is not deprecated is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Family string `json:"family,omitempty"`

	// project is the project of the image, such as ubuntu-os-cloud. Default the machine's project.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9][-a-z0-9.]*:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$`
	Project string `json:"project,omitempty"`
}

// GoogleDiskSettings are the settings of a persistent disk or a Hyperdisk volume.
type GoogleDiskSettings struct {
	// sizeGB is the size in units of 2^30 bytes. Default the size of the image or snapshot.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGB *int64 `json:"sizeGB,omitempty"`

	// type is the disk type, such as pd-balanced, pd-ssd or hyperdisk-balanced. Default that of Compute Engine for the machine
	// type.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Type string `json:"type,omitempty"`

	// provisionedIOPS is the provisioned number of operations per second, for types that have such. Default that of Compute
	// Engine for the size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	ProvisionedIOPS *int64 `json:"provisionedIOPS,omitempty"`

	// provisionedThroughput is the provisioned throughput in MiB per second, for types that have such. Default that of Compute
	// Engine for the size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	ProvisionedThroughput *int64 `json:"provisionedThroughput,omitempty"`

	// kmsKeyName is the key of Cloud KMS to encrypt with:
	// projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>. Without it Google manages the key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+(/cryptoKeyVersions/[0-9]+)?$`
	KMSKeyName string `json:"kmsKeyName,omitempty"`
}

// GoogleBootDisk is the boot disk. It is created from the image and deleted with the instance.
// +kubebuilder:validation:MinProperties=1
type GoogleBootDisk struct {
	GoogleDiskSettings `json:",inline"`

	// guestOSFeatures are features of the guest beside those of the image, such as GVNIC or UEFI_COMPATIBLE.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Z0-9_]*$`
	GuestOSFeatures []string `json:"guestOSFeatures,omitempty"`
}

// GoogleDisk is a disk beside the boot disk. It is created and deleted with the instance.
// +kubebuilder:validation:XValidation:rule="has(self.sizeGB) || has(self.snapshot)",message="one of sizeGB and snapshot must be set"
type GoogleDisk struct {
	// name is the device name: the guest has the disk as /dev/disk/by-id/google-<name>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// snapshot is the snapshot of the machine's project to begin with. Without it the disk is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Snapshot string `json:"snapshot,omitempty"`

	GoogleDiskSettings `json:",inline"`
}

// GoogleLocalSSD are local SSDs of 375 GB each. Their data ends with the instance.
type GoogleLocalSSD struct {
	// count is how many there are. Machine types that come with a fixed number need no localSSD.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Count int32 `json:"count,omitempty"`

	// interface is NVME or SCSI. Default NVME.
	// +optional
	// +default="NVME"
	// +kubebuilder:validation:Enum=NVME;SCSI
	Interface string `json:"interface,omitempty"`
}

// GoogleAliasIPRange is a range of further addresses of a network interface.
type GoogleAliasIPRange struct {
	// ipCIDRRange is a range such as 10.1.2.0/24, an address, or only a length such as /24, for which Compute Engine chooses
	// the range.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F.:]*(/[0-9]{1,3})?$`
	IPCIDRRange string `json:"ipCIDRRange,omitempty"`

	// subnetworkRangeName is the secondary range of the subnetwork. Default its primary range.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	SubnetworkRangeName string `json:"subnetworkRangeName,omitempty"`
}

// GoogleNetworkInterface is one network interface.
// +kubebuilder:validation:XValidation:rule="has(self.network) || has(self.subnetwork)",message="one of network and subnetwork must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.networkTier) || has(self.externalIP) && self.externalIP",message="networkTier needs externalIP"
type GoogleNetworkInterface struct {
	// network is the VPC network. Default that of the subnetwork.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Network string `json:"network,omitempty"`

	// subnetwork is the subnetwork, in the region of the instance's zone. It is needed unless the network creates its
	// subnetworks automatically.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Subnetwork string `json:"subnetwork,omitempty"`

	// project is the host project of a Shared VPC. Default the machine's project.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9][-a-z0-9.]*:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$`
	Project string `json:"project,omitempty"`

	// externalIP gives the interface an ephemeral external address. Default false.
	// +optional
	ExternalIP *bool `json:"externalIP,omitempty"`

	// networkTier is PREMIUM or STANDARD, for the external address. Default that of the project.
	// +optional
	// +kubebuilder:validation:Enum=PREMIUM;STANDARD
	NetworkTier string `json:"networkTier,omitempty"`

	// stackType is IPV4_ONLY, IPV4_IPV6 or IPV6_ONLY. Default IPV4_ONLY.
	// +optional
	// +kubebuilder:validation:Enum=IPV4_ONLY;IPV4_IPV6;IPV6_ONLY
	StackType string `json:"stackType,omitempty"`

	// nicType is GVNIC, VIRTIO_NET, IDPF, MRDMA or IRDMA. Default that of Compute Engine for machine type and image.
	// +optional
	// +kubebuilder:validation:Enum=GVNIC;VIRTIO_NET;IDPF;MRDMA;IRDMA
	NICType string `json:"nicType,omitempty"`

	// aliasIPRanges are ranges of further addresses, for example for pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	AliasIPRanges []GoogleAliasIPRange `json:"aliasIPRanges,omitempty"`
}

// GoogleServiceAccount is the service account of the instance: every process and pod on it that reaches the metadata server
// may act as it.
type GoogleServiceAccount struct {
	// email is the service account's name, or default for that of Compute Engine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^(default|[-a-z0-9.]+@[-a-z0-9.]+)$`
	Email string `json:"email,omitempty"`

	// scopes limit the service account's permissions on the instance. Default cloud-platform, so that IAM alone decides.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^https://www\.googleapis\.com/auth/[-a-z._]+$`
	Scopes []string `json:"scopes,omitempty"`
}

// GoogleAccelerator are GPUs or other accelerators of one type. Machine types that come with accelerators need none here.
type GoogleAccelerator struct {
	// type is the accelerator type, such as nvidia-tesla-t4.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Type string `json:"type,omitempty"`

	// count is how many there are.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Count int32 `json:"count,omitempty"`
}

// GoogleShieldedInstance are the settings of a Shielded VM. A field that is not set has the default of Compute Engine.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.integrityMonitoring) || !self.integrityMonitoring || !has(self.vtpm) || self.vtpm",message="integrityMonitoring needs vtpm"
type GoogleShieldedInstance struct {
	// secureBoot boots only signed software. Default false.
	// +optional
	SecureBoot *bool `json:"secureBoot,omitempty"`

	// vtpm gives the instance a virtual TPM. Default true, if the image supports it.
	// +optional
	VTPM *bool `json:"vtpm,omitempty"`

	// integrityMonitoring compares the measurements of each boot with a baseline. Default true, if the image supports it.
	// +optional
	IntegrityMonitoring *bool `json:"integrityMonitoring,omitempty"`
}

// GoogleAdvancedMachineFeatures are features of the CPU.
// +kubebuilder:validation:MinProperties=1
type GoogleAdvancedMachineFeatures struct {
	// nestedVirtualization lets the guest run virtual machines. Default false.
	// +optional
	NestedVirtualization *bool `json:"nestedVirtualization,omitempty"`

	// threadsPerCore is 1 to switch simultaneous multithreading off, or 2. Default that of the machine type.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	ThreadsPerCore *int64 `json:"threadsPerCore,omitempty"`
}

// GoogleReservationAffinity is which reservation of capacity the instance may use.
// +kubebuilder:validation:XValidation:rule="has(self.reservation) == (self.consumeReservationType == 'SPECIFIC_RESERVATION')",message="reservation and consumeReservationType SPECIFIC_RESERVATION need each other"
type GoogleReservationAffinity struct {
	// consumeReservationType is ANY_RESERVATION (one that matches, or none), SPECIFIC_RESERVATION or NO_RESERVATION.
	// +required
	// +kubebuilder:validation:Enum=ANY_RESERVATION;SPECIFIC_RESERVATION;NO_RESERVATION
	ConsumeReservationType string `json:"consumeReservationType,omitempty"`

	// reservation is the reservation to use: its name, or projects/<project>/reservations/<name> for one that another project
	// shares.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(projects/[^/]+/reservations/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	Reservation string `json:"reservation,omitempty"`
}

// GoogleFallback is an alternative; fields that are not set have the values of the spec.
// +kubebuilder:validation:MinProperties=1
type GoogleFallback struct {
	// machineType is another machine type. Image and disk types must fit it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	MachineType string `json:"machineType,omitempty"`

	// zone is another zone. Subnetworks of the same names must exist in its region.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?-[a-z]$`
	Zone string `json:"zone,omitempty"`

	// provisioningModel is STANDARD or SPOT.
	// +optional
	// +kubebuilder:validation:Enum=STANDARD;SPOT
	ProvisioningModel string `json:"provisioningModel,omitempty"`
}
