// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// YandexMachineSpec is what an instance of Yandex Compute Cloud should be. It is immutable: to change it, create a template of
// another name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="!has(self.placementGroupPartition) || has(self.placementGroupID)",message="placementGroupPartition needs placementGroupID"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.coreFraction) == has(oldSelf.coreFraction) && (!has(self.coreFraction) || self.coreFraction == oldSelf.coreFraction)",message="coreFraction is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) == has(oldSelf.gpus) && (!has(self.gpus) || self.gpus == oldSelf.gpus)",message="gpus are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.disks) == has(oldSelf.disks) && (!has(self.disks) || self.disks == oldSelf.disks)",message="disks are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.localDisks) == has(oldSelf.localDisks) && (!has(self.localDisks) || self.localDisks == oldSelf.localDisks)",message="localDisks are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.filesystems) == has(oldSelf.filesystems) && (!has(self.filesystems) || self.filesystems == oldSelf.filesystems)",message="filesystems are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.preemptible) == has(oldSelf.preemptible) && (!has(self.preemptible) || self.preemptible == oldSelf.preemptible)",message="preemptible is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountID) == has(oldSelf.serviceAccountID) && (!has(self.serviceAccountID) || self.serviceAccountID == oldSelf.serviceAccountID)",message="serviceAccountID is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networkAcceleration) == has(oldSelf.networkAcceleration) && (!has(self.networkAcceleration) || self.networkAcceleration == oldSelf.networkAcceleration)",message="networkAcceleration is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementGroupID) == has(oldSelf.placementGroupID) && (!has(self.placementGroupID) || self.placementGroupID == oldSelf.placementGroupID)",message="placementGroupID is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementGroupPartition) == has(oldSelf.placementGroupPartition) && (!has(self.placementGroupPartition) || self.placementGroupPartition == oldSelf.placementGroupPartition)",message="placementGroupPartition is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.hostAffinityRules) == has(oldSelf.hostAffinityRules) && (!has(self.hostAffinityRules) || self.hostAffinityRules == oldSelf.hostAffinityRules)",message="hostAffinityRules are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.gpuClusterID) == has(oldSelf.gpuClusterID) && (!has(self.gpuClusterID) || self.gpuClusterID == oldSelf.gpuClusterID)",message="gpuClusterID is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.reservedInstancePoolID) == has(oldSelf.reservedInstancePoolID) && (!has(self.reservedInstancePoolID) || self.reservedInstancePoolID == oldSelf.reservedInstancePoolID)",message="reservedInstancePoolID is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.maintenancePolicy) == has(oldSelf.maintenancePolicy) && (!has(self.maintenancePolicy) || self.maintenancePolicy == oldSelf.maintenancePolicy)",message="maintenancePolicy is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.maintenanceGracePeriodSeconds) == has(oldSelf.maintenanceGracePeriodSeconds) && (!has(self.maintenanceGracePeriodSeconds) || self.maintenanceGracePeriodSeconds == oldSelf.maintenanceGracePeriodSeconds)",message="maintenanceGracePeriodSeconds are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadataOptions) == has(oldSelf.metadataOptions) && (!has(self.metadataOptions) || self.metadataOptions == oldSelf.metadataOptions)",message="metadataOptions are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.serialPortSSHAuthorization) == has(oldSelf.serialPortSSHAuthorization) && (!has(self.serialPortSSHAuthorization) || self.serialPortSSHAuthorization == oldSelf.serialPortSSHAuthorization)",message="serialPortSSHAuthorization is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",message="labels are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadata) == has(oldSelf.metadata) && (!has(self.metadata) || self.metadata == oldSelf.metadata)",message="metadata is immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new YandexMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.bootDisk) == has(oldSelf.bootDisk) && (!has(self.bootDisk) || self.bootDisk == oldSelf.bootDisk)",message="bootDisk is immutable: roll out a new YandexMachineTemplate instead"
type YandexMachineSpec struct {
	// providerID is the identifier that the Node has, too, yandex://<instance ID>. It is set by the provider; set it yourself
	// only to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the key key.json, an authorized key of a service account, or
	// with the key iam-token, an IAM token. Without it the provider uses its own identity: its environment, or the service
	// account of the instance that it runs on. Immutable, but the Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// folderID is the ID of the folder of the instance and its disks. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="folderID is immutable: roll out a new YandexMachineTemplate instead"
	FolderID string `json:"folderID,omitempty"`

	// zone is the availability zone of the instance, such as ru-central1-a, unless the Machine names a failure domain, which
	// wins. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zone is immutable: roll out a new YandexMachineTemplate instead"
	Zone string `json:"zone,omitempty"`

	// platformID is the hardware platform, such as standard-v3, highfreq-v3 or gpu-standard-v3. Immutable.
	// +optional
	// +default="standard-v3"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="platformID is immutable: roll out a new YandexMachineTemplate instead"
	PlatformID string `json:"platformID,omitempty"`

	// cores is the number of vCPUs that the platform permits, such as 2, 4 or 8. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cores are immutable: roll out a new YandexMachineTemplate instead"
	Cores int64 `json:"cores,omitempty"`

	// memoryMiB is the memory in units of 2^20 bytes, which the platform must permit for the cores. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=67108864
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="memoryMiB is immutable: roll out a new YandexMachineTemplate instead"
	MemoryMiB int64 `json:"memoryMiB,omitempty"`

	// coreFraction is the baseline of each vCPU in percent, such as 5, 20, 50 or 100. Default 100. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	CoreFraction *int64 `json:"coreFraction,omitempty"`

	// gpus is the number of GPUs, for platforms that have some. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	GPUs *int64 `json:"gpus,omitempty"`

	// image is the image to boot. It must have cloud-init. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new YandexMachineTemplate instead"
	Image YandexImage `json:"image,omitempty,omitzero"`

	// bootDisk changes the boot disk. Immutable.
	// +optional
	BootDisk YandexDiskSettings `json:"bootDisk,omitempty,omitzero"`

	// disks are further disks. They are created and deleted with the instance. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Disks []YandexDisk `json:"disks,omitempty"`

	// localDisks are disks of the host, for platforms that have some. Their content ends with the instance. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	LocalDisks []YandexLocalDisk `json:"localDisks,omitempty"`

	// filesystems are file storages that exist in the zone of the instance and stay when it is deleted. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=filesystemID
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Filesystems []YandexFilesystem `json:"filesystems,omitempty"`

	// networkInterfaces are the network interfaces, the primary one first. Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networkInterfaces are immutable: roll out a new YandexMachineTemplate instead"
	NetworkInterfaces []YandexNetworkInterface `json:"networkInterfaces,omitempty"`

	// preemptible makes an instance that Compute Cloud may stop at any time, and does within 24 hours. It is never started
	// again. Default false. Immutable.
	// +optional
	Preemptible *bool `json:"preemptible,omitempty"`

	// serviceAccountID is the ID of the service account of the instance. Without it the instance has none. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	ServiceAccountID string `json:"serviceAccountID,omitempty"`

	// networkAcceleration is STANDARD, SOFTWARE_ACCELERATED or HARDWARE_ACCELERATED. Default that of Compute Cloud. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=STANDARD;SOFTWARE_ACCELERATED;HARDWARE_ACCELERATED
	NetworkAcceleration string `json:"networkAcceleration,omitempty"`

	// placementGroupID is the ID of a placement group. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	PlacementGroupID string `json:"placementGroupID,omitempty"`

	// placementGroupPartition is the partition of a placement group that has partitions, from 1. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	PlacementGroupPartition *int64 `json:"placementGroupPartition,omitempty"`

	// hostAffinityRules select dedicated hosts. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	HostAffinityRules []YandexHostAffinityRule `json:"hostAffinityRules,omitempty"`

	// gpuClusterID is the ID of a GPU cluster. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	GPUClusterID string `json:"gpuClusterID,omitempty"`

	// reservedInstancePoolID is the ID of a pool of reserved instances of this size. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,49}$`
	ReservedInstancePoolID string `json:"reservedInstancePoolID,omitempty"`

	// maintenancePolicy is RESTART or MIGRATE: what happens to the instance during maintenance of its host. Default that of
	// Compute Cloud. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=RESTART;MIGRATE
	MaintenancePolicy string `json:"maintenancePolicy,omitempty"`

	// maintenanceGracePeriodSeconds is the time in seconds between the notification of the guest and the maintenance. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaintenanceGracePeriodSeconds *int64 `json:"maintenanceGracePeriodSeconds,omitempty"`

	// metadataOptions are which metadata services the guest has. Immutable.
	// +optional
	MetadataOptions YandexMetadataOptions `json:"metadataOptions,omitempty,omitzero"`

	// serialPortSSHAuthorization is INSTANCE_METADATA or OS_LOGIN: who may log in to the serial console by SSH. Default that of
	// Compute Cloud. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=INSTANCE_METADATA;OS_LOGIN
	SerialPortSSHAuthorization string `json:"serialPortSSHAuthorization,omitempty"`

	// labels are put on the instance and its disks, beside the provider's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-z][a-z0-9_./@-]{0,62}$') && !key.startsWith('drover-'))",message="keys have up to 63 lower-case letters, digits and -_./@, and begin with a letter and not with drover-"
	Labels map[string]YandexLabelValue `json:"labels,omitempty"`

	// metadata are further metadata items of the instance, such as ssh-keys or serial-port-enable. The key user-data has the
	// bootstrap data. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-zA-Z0-9_-]{1,63}$') && key != 'user-data')",message="keys have up to 63 letters, digits, - and _; user-data has the bootstrap data"
	Metadata map[string]YandexMetadataValue `json:"metadata,omitempty"`

	// fallbacks are the alternatives, in order, if Compute Cloud has no capacity or the cloud no quota for the spec. Those with
	// another zone than the Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []YandexFallback `json:"fallbacks,omitempty"`
}

// YandexMachine is an instance of Yandex Compute Cloud.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=yandexmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this YandexMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Platform",type="string",JSONPath=".spec.platformID",priority=10,description="Requested platform"
// +kubebuilder:printcolumn:name="Cores",type="integer",JSONPath=".spec.cores",priority=10,description="Requested vCPUs"
type YandexMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec YandexMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *YandexMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *YandexMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *YandexMachine) GetStatus() *MachineStatus { return &m.Status }

// YandexMachineList is a list of YandexMachines.
// +kubebuilder:object:root=true
type YandexMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the YandexMachines.
	Items []YandexMachine `json:"items"`
}
