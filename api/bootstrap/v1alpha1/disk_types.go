// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Disk is a disk of the host besides the one that it boots from. A file system that is there already under the
// same label is used as it is; a disk that holds anything else is left alone, and the bootstrap fails.
type Disk struct {
	// device is the path of the disk, such as /dev/sdb. Prefer a path that does not depend on the order in which
	// disks are found, such as one below /dev/disk/by-id.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/dev(/[A-Za-z0-9][A-Za-z0-9._:+@-]*)+$`
	Device string `json:"device,omitempty"`

	// partitionTable is the partition table that is written before the file system: None puts the file system on the
	// whole disk, GPT makes a partition table with one partition over the whole disk. Default None.
	// +optional
	// +kubebuilder:validation:Enum=None;GPT
	PartitionTable PartitionTable `json:"partitionTable,omitempty"`

	// filesystem is the kind of file system: ext4 or xfs. Default ext4.
	// +optional
	// +kubebuilder:validation:Enum=ext4;xfs
	Filesystem Filesystem `json:"filesystem,omitempty"`

	// label is the label of the file system. It must be the only one of this name on the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	Label string `json:"label,omitempty"`

	// mountPath is where the file system is mounted, before containerd and the kubelet start, such as
	// /var/lib/containerd. What the folder holds already is copied there.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`
	MountPath string `json:"mountPath,omitempty"`

	// mountOptions are options of the mount, such as noatime. Default: none but the defaults of the file system.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z][A-Za-z0-9_.=:/-]*$`
	MountOptions []string `json:"mountOptions,omitempty"`
}

// PartitionTable is the partition table of a disk.
type PartitionTable string

const (
	// PartitionTableNone is a file system on the whole disk.
	PartitionTableNone PartitionTable = "None"

	// PartitionTableGPT is a GUID partition table with one partition.
	PartitionTableGPT PartitionTable = "GPT"
)

// Filesystem is a kind of file system.
type Filesystem string

const (
	// Ext4 is the fourth extended file system.
	Ext4 Filesystem = "ext4"

	// XFS is the XFS file system.
	XFS Filesystem = "xfs"
)
