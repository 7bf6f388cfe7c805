// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// YandexLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9_./@-]*$`
type YandexLabelValue string

// YandexMetadataValue is the value of a metadata item.
// +kubebuilder:validation:MaxLength=16384
type YandexMetadataValue string

// YandexImage names an image, or the newest image of a family.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.family)",message="exactly one of id and family must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.folderID) || has(self.family)",message="folderID is where the family is looked for: an id needs none"
type YandexImage struct {
	// id is the image's ID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	ID string `json:"id,omitempty"`

	// family is the image family, such as ubuntu-2404-lts. The newest image of it is used.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][-a-z0-9]{1,61}[a-z0-9]$`
	Family string `json:"family,omitempty"`

	// folderID is the folder of the family. Default standard-images, which has the public images of Yandex Cloud.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	FolderID string `json:"folderID,omitempty"`
}

// YandexDiskSettings are the settings of a disk.
// +kubebuilder:validation:XValidation:rule="!has(self.placementGroupPartition) || has(self.placementGroupID)",message="placementGroupPartition needs placementGroupID"
type YandexDiskSettings struct {
	// sizeGiB is the size in units of 2^30 bytes. Default the least size of the image; required otherwise.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=262144
	SizeGiB *int64 `json:"sizeGiB,omitempty"`

	// typeID is the type, such as network-hdd, network-ssd, network-ssd-nonreplicated or network-ssd-io-m3. Default that of
	// Compute Cloud.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	TypeID string `json:"typeID,omitempty"`

	// blockSize is the size of a block in bytes. Default that of Compute Cloud, 4096.
	// +optional
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=131072
	BlockSize *int64 `json:"blockSize,omitempty"`

	// kmsKeyID is the ID of the key of Key Management Service that encrypts the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// placementGroupID is the ID of a disk placement group in the zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	PlacementGroupID string `json:"placementGroupID,omitempty"`

	// placementGroupPartition is the partition of a disk placement group that has partitions, from 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	PlacementGroupPartition *int64 `json:"placementGroupPartition,omitempty"`

	// snapshotScheduleIDs are the IDs of schedules that snapshot the disk. Snapshots stay when the disk is deleted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	SnapshotScheduleIDs []string `json:"snapshotScheduleIDs,omitempty"`
}

// YandexDisk is a further disk.
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB)",message="sizeGiB must be set for a further disk"
type YandexDisk struct {
	// name is the name of the device, under which the guest finds it: /dev/disk/by-id/virtio-<name>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9_-]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'boot'",message="boot is the name of the boot disk"
	Name string `json:"name,omitempty"`

	YandexDiskSettings `json:",inline"`

	// snapshotID is the ID of the snapshot to create the disk from. Default an empty disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	SnapshotID string `json:"snapshotID,omitempty"`
}

// YandexLocalDisk is a disk of the host.
type YandexLocalDisk struct {
	// sizeGiB is the size in units of 2^30 bytes, which the platform prescribes.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=262144
	SizeGiB int64 `json:"sizeGiB,omitempty"`

	// kmsKeyID is the ID of the key of Key Management Service that encrypts the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	KMSKeyID string `json:"kmsKeyID,omitempty"`
}

// YandexFilesystem is a file storage to attach.
type YandexFilesystem struct {
	// filesystemID is the ID of the file storage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	FilesystemID string `json:"filesystemID,omitempty"`

	// deviceName is the name by which the guest mounts it. Default one that Compute Cloud chooses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_-]*$`
	DeviceName string `json:"deviceName,omitempty"`

	// readOnly permits no changes. Default false.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`
}

// YandexNetworkInterface is a network interface.
type YandexNetworkInterface struct {
	// subnets has the subnet for each zone in which the instance may be requested: that of the spec, of the fallbacks and of the
	// failure domains.
	// +required
	// +listType=map
	// +listMapKey=zone
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Subnets []YandexSubnet `json:"subnets,omitempty"`

	// externalIP requests an external IPv4 address, which ends with the instance. Default false.
	// +optional
	ExternalIP *bool `json:"externalIP,omitempty"`

	// ipv6 requests an IPv6 address, where the subnet has them. Default false.
	// +optional
	IPv6 *bool `json:"ipv6,omitempty"`

	// securityGroupIDs are the IDs of security groups. Default that of the network.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`
}

// YandexSubnet is the subnet of a network interface in a zone.
type YandexSubnet struct {
	// zone is the availability zone of the subnet.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// subnetID is the ID of the subnet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	SubnetID string `json:"subnetID,omitempty"`
}

// YandexHostAffinityRule selects dedicated hosts.
type YandexHostAffinityRule struct {
	// key is a label of hosts, yc.hostId or yc.hostGroupId.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key,omitempty"`

	// operator is IN or NOT_IN.
	// +required
	// +kubebuilder:validation:Enum=IN;NOT_IN
	Operator string `json:"operator,omitempty"`

	// values are the values, such as IDs of hosts or host groups.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// YandexMetadataOptions are which metadata services the guest has.
// +kubebuilder:validation:MinProperties=1
type YandexMetadataOptions struct {
	// gceHTTPEndpoint is the service in the format of Google Compute Engine: ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	GCEHTTPEndpoint string `json:"gceHTTPEndpoint,omitempty"`

	// gceHTTPToken is whether it has IAM tokens of the service account: ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	GCEHTTPToken string `json:"gceHTTPToken,omitempty"`

	// awsV1HTTPEndpoint is the service in the format of Amazon EC2 (IMDSv1), which cloud-init may need: ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	AWSV1HTTPEndpoint string `json:"awsV1HTTPEndpoint,omitempty"`

	// awsV1HTTPToken is whether it has IAM tokens of the service account: ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	AWSV1HTTPToken string `json:"awsV1HTTPToken,omitempty"`

	// awsV2HTTPEndpoint is the service in the format of Amazon EC2 with sessions (IMDSv2): ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	AWSV2HTTPEndpoint string `json:"awsV2HTTPEndpoint,omitempty"`

	// awsV2HTTPToken is whether it has credentials of the Security Token Service: ENABLED or DISABLED. Default that of Compute Cloud.
	// +optional
	// +kubebuilder:validation:Enum=ENABLED;DISABLED
	AWSV2HTTPToken string `json:"awsV2HTTPToken,omitempty"`
}

// YandexFallback is an alternative for an instance without capacity or quota. What it leaves out is that of the spec.
// +kubebuilder:validation:MinProperties=1
type YandexFallback struct {
	// zone is another zone, for which each network interface has a subnet.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// platformID is another platform.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	PlatformID string `json:"platformID,omitempty"`

	// cores is another number of vCPUs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Cores int64 `json:"cores,omitempty"`

	// memoryMiB is another size of the memory.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=67108864
	MemoryMiB int64 `json:"memoryMiB,omitempty"`

	// preemptible is whether the instance is preemptible.
	// +optional
	Preemptible *bool `json:"preemptible,omitempty"`
}
