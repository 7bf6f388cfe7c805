// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// TokenFinalizer keeps a BootstrapConfig while a bootstrap token of its Machine may exist in the
	// workload cluster. It is put on before the token is made and goes once the token is gone.
	TokenFinalizer = "bootstrap.drover.io/token"

	// MachineUIDLabel marks a bootstrap token in the workload cluster with the UID of its Machine.
	MachineUIDLabel = "bootstrap.drover.io/machine-uid"
)

// OperatingSystem is an operating system that a BootstrapConfig can be rendered for.
type OperatingSystem string

const (
	// Ubuntu is Ubuntu 22.04, 24.04 or 26.04.
	Ubuntu OperatingSystem = "ubuntu"

	// Debian is Debian 12 or 13.
	Debian OperatingSystem = "debian"

	// Flatcar is Flatcar Container Linux.
	Flatcar OperatingSystem = "flatcar"

	// RHEL is Red Hat Enterprise Linux 9 or 10.
	RHEL OperatingSystem = "rhel"

	// Rocky is Rocky Linux 9 or 10.
	Rocky OperatingSystem = "rocky"

	// AmazonLinux is Amazon Linux 2023.
	AmazonLinux OperatingSystem = "amazonlinux"
)

// Format is the language that the bootstrap data is written in.
type Format string

const (
	// CloudConfig is cloud-init's cloud-config.
	CloudConfig Format = "cloud-config"

	// Ignition is Ignition 3.4.
	Ignition Format = "ignition"
)

// BootstrapConfigSpec describes how a machine becomes a Node. The bootstrap data is rendered from it once, before
// the machine is made: a change after that has no effect on this machine. Every field may be changed until then.
// +kubebuilder:validation:XValidation:rule="!has(self.format) || (self.operatingSystem == 'flatcar') == (self.format == 'ignition')",message="flatcar goes with format ignition, the other operating systems with cloud-config: leave format empty",fieldPath=".format"
// +kubebuilder:validation:XValidation:rule="self.operatingSystem != 'flatcar' || !has(self.packages) && !has(self.packageUpgrade)",message="flatcar has no packages: use binaries, and flatcar.updates",fieldPath=".operatingSystem"
// +kubebuilder:validation:XValidation:rule="self.operatingSystem == 'flatcar' || !has(self.flatcar)",message="is for operatingSystem flatcar",fieldPath=".flatcar"
// +kubebuilder:validation:XValidation:rule="self.operatingSystem == 'rhel' || !has(self.rhel)",message="is for operatingSystem rhel",fieldPath=".rhel"
// +kubebuilder:validation:XValidation:rule="!has(self.binaries) || !has(self.binaries.kubeadm) || has(self.join) && has(self.join.method) && self.join.method == 'Kubeadm'",message="is for join.method Kubeadm",fieldPath=".binaries.kubeadm"
type BootstrapConfigSpec struct {
	// operatingSystem is what the machine's image runs: ubuntu (22.04, 24.04, 26.04), debian (12, 13), flatcar, rhel
	// (9, 10), rocky (9, 10) or amazonlinux (2023).
	// +required
	// +kubebuilder:validation:Enum=ubuntu;debian;flatcar;rhel;rocky;amazonlinux
	OperatingSystem OperatingSystem `json:"operatingSystem,omitempty"`

	// format is the language of the bootstrap data. Default, and all that works: ignition for flatcar,
	// cloud-config for the others.
	// +optional
	// +kubebuilder:validation:Enum=cloud-config;ignition
	Format Format `json:"format,omitempty"`

	// profileRef names a NodeProfile of the same namespace: where binaries for the version of the Machine come from, and
	// defaults for the fields below. Default: none.
	// +optional
	ProfileRef NodeProfileReference `json:"profileRef,omitempty,omitzero"`

	// join describes how the machine reaches and trusts the API server of its cluster.
	// +optional
	Join Join `json:"join,omitempty,omitzero"`

	// kubelet is the configuration of the kubelet.
	// +optional
	Kubelet Kubelet `json:"kubelet,omitempty,omitzero"`

	// containerd is the configuration of the container runtime.
	// +optional
	Containerd Containerd `json:"containerd,omitempty,omitzero"`

	// binaries are downloaded and verified before the kubelet starts. Default: those that the NodeProfile has for the version
	// of the Machine; without a profile none, the image has them all.
	// +optional
	Binaries Binaries `json:"binaries,omitempty,omitzero"`

	// packages are packages of the operating system to install before anything else, such as containerd, by the names
	// that apt or dnf know. The installation is tried for 30 minutes; then the bootstrap fails. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9.+:~=_-]*$`
	Packages []string `json:"packages,omitempty"`

	// packageUpgrade configures whether all packages are upgraded at the first boot, before the machine
	// joins, with a reboot if that needs one: Never or OnFirstBoot. The upgrade is tried for 30 minutes; then the
	// bootstrap fails. Default Never.
	// +optional
	// +kubebuilder:validation:Enum=Never;OnFirstBoot
	PackageUpgrade PackageUpgrade `json:"packageUpgrade,omitempty"`

	// flatcar is for operatingSystem flatcar only.
	// +optional
	Flatcar FlatcarOptions `json:"flatcar,omitempty,omitzero"`

	// rhel is for operatingSystem rhel only.
	// +optional
	RHEL RHELOptions `json:"rhel,omitempty,omitzero"`

	// hostname chooses the name of the host, and with it the name of the Node: Infrastructure keeps the name
	// that the cloud gives the instance, Machine uses the name of the Machine. Default Infrastructure.
	// +optional
	// +kubebuilder:validation:Enum=Infrastructure;Machine
	Hostname HostnameSource `json:"hostname,omitempty"`

	// disks are given a file system and mounted, before containerd and the kubelet start. Swap stays off.
	// Default: none.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Disks []Disk `json:"disks,omitempty"`

	// files are written to the host before any command runs.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Files []File `json:"files,omitempty"`

	// users are made on the host.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Users []User `json:"users,omitempty"`

	// ntp chooses the time servers. Default: those of the image.
	// +optional
	NTP NTP `json:"ntp,omitempty,omitzero"`

	// trustedCAs are PEM certificates of authorities that the host trusts besides its own, for registries,
	// mirrors and proxies. Default: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	TrustedCAs string `json:"trustedCAs,omitempty"`

	// proxy is used by containerd, the kubelet, package managers and downloads. Default: none.
	// +optional
	Proxy Proxy `json:"proxy,omitempty,omitzero"`

	// preCommands run in a shell, in order, before containerd and the kubelet start. The machine does not
	// join when one of them fails.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	PreCommands []string `json:"preCommands,omitempty"`

	// postCommands run in a shell, in order, after the kubelet was started, which is usually before the Node
	// is Ready. When one of them fails, the bootstrap counts as failed: the success file is not written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	PostCommands []string `json:"postCommands,omitempty"`

	// maxSizeBytes is the most that the bootstrap data may have before any encoding, as the cloud limits user data:
	// 16384 on AWS, 32768 on Hetzner, 65535 on Azure, 65536 on DigitalOcean, 49149 on OpenStack, whose limit of 65535 is counted in
	// base64. Data that is larger is refused before a machine is made. Default 16384, which every cloud takes. Unit: bytes.
	// +optional
	// +default=16384
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=1000000
	MaxSizeBytes *int32 `json:"maxSizeBytes,omitempty"`
}

// HostnameSource is where a host takes its name from.
type HostnameSource string

const (
	// HostnameFromInfrastructure keeps the name the cloud gives the instance.
	HostnameFromInfrastructure HostnameSource = "Infrastructure"

	// HostnameFromMachine names the host as the Machine.
	HostnameFromMachine HostnameSource = "Machine"
)

// PackageUpgrade is when all packages are upgraded.
type PackageUpgrade string

const (
	// PackageUpgradeNever leaves the packages of the image as they are.
	PackageUpgradeNever PackageUpgrade = "Never"

	// PackageUpgradeOnFirstBoot brings them up to date before the machine joins.
	PackageUpgradeOnFirstBoot PackageUpgrade = "OnFirstBoot"
)

// BootstrapConfigStatus is the observed state of a BootstrapConfig.
// +kubebuilder:validation:MinProperties=1
type BootstrapConfigStatus struct {
	// conditions are Ready (the bootstrap data exists), TokenReady (the bootstrap token is as it should be
	// in the workload cluster) and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports when the bootstrap data exists.
	// +optional
	Initialization BootstrapConfigInitialization `json:"initialization,omitempty,omitzero"`

	// profile is what of the NodeProfile is in the bootstrap data.
	// +optional
	Profile BootstrapConfigProfile `json:"profile,omitempty,omitzero"`

	// dataSecretName is the name of the Secret that holds the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// observedGeneration is the latest generation of the spec that was acted on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// BootstrapConfigProfile is what of a NodeProfile is in the bootstrap data.
type BootstrapConfigProfile struct {
	// name is the name of the NodeProfile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// generation is that of the NodeProfile.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// fields are those of the spec that have a value of the NodeProfile, or a part of it, such as spec.proxy or
	// spec.binaries.kubelet.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Fields []string `json:"fields,omitempty"`
}

// BootstrapConfigInitialization is the part of the contract that orders provisioning.
// +kubebuilder:validation:MinProperties=1
type BootstrapConfigInitialization struct {
	// dataSecretCreated is true once the bootstrap data exists. It never becomes false again.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// BootstrapConfig describes how one machine becomes a Node of its cluster, and is rendered into the user data of
// that machine.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=bootstrapconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this BootstrapConfig"
// +kubebuilder:printcolumn:name="OS",type="string",JSONPath=".spec.operatingSystem",description="Operating system"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the bootstrap data exists"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Secret",type="string",JSONPath=".status.dataSecretName",description="Secret with the bootstrap data"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",priority=10,description="Message of the Ready condition"
type BootstrapConfig struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes how the machine becomes a Node.
	// +required
	Spec BootstrapConfigSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status BootstrapConfigStatus `json:"status,omitempty,omitzero"`
}

// BootstrapConfigList is a list of BootstrapConfigs.
// +kubebuilder:object:root=true
type BootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the BootstrapConfigs.
	Items []BootstrapConfig `json:"items"`
}
