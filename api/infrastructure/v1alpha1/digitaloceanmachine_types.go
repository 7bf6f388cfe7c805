// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DigitalOceanMachineSpec is what a Droplet should be. It is immutable: to change it, create a template of another name and
// refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may change, so that a machine
// stays deletable when its Secret was renamed.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialsSecretName) || has(self.credentialsSecretName)",message="credentialsSecretName may name another Secret and must not be removed: the provider's own credentials are for machines that were made with them"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.imageName)",message="set exactly one of image and imageName"
// +kubebuilder:validation:XValidation:rule="self.publicNetworking || (!self.ipv6 && !self.reservedIP)",message="ipv6 and reservedIP need publicNetworking"
// +kubebuilder:validation:XValidation:rule="!has(self.backupPolicy) || self.backups",message="backupPolicy needs backups"
// +kubebuilder:validation:XValidation:rule="has(self.region) == has(oldSelf.region) && (!has(self.region) || self.region == oldSelf.region)",message="region is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image)",message="image is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.imageName) == has(oldSelf.imageName) && (!has(self.imageName) || self.imageName == oldSelf.imageName)",message="imageName is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sshKeys) == has(oldSelf.sshKeys) && (!has(self.sshKeys) || self.sshKeys == oldSelf.sshKeys)",message="sshKeys are immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.vpcUUID) == has(oldSelf.vpcUUID) && (!has(self.vpcUUID) || self.vpcUUID == oldSelf.vpcUUID)",message="vpcUUID is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.backupPolicy) == has(oldSelf.backupPolicy) && (!has(self.backupPolicy) || self.backupPolicy == oldSelf.backupPolicy)",message="backupPolicy is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dropletAgent) == has(oldSelf.dropletAgent) && (!has(self.dropletAgent) || self.dropletAgent == oldSelf.dropletAgent)",message="dropletAgent is immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.volumes) == has(oldSelf.volumes) && (!has(self.volumes) || self.volumes == oldSelf.volumes)",message="volumes are immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new DigitalOceanMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new DigitalOceanMachineTemplate instead"
type DigitalOceanMachineSpec struct {
	// providerID is the identifier that the Node has, too, digitalocean://<Droplet ID>. It is set by the
	// provider; set it yourself only to adopt a Droplet of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^digitalocean://[1-9][0-9]*$`
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace whose key token holds a personal access token of the
	// team. Without it the provider's own environment variable DIGITALOCEAN_TOKEN counts. May be changed, to another
	// Secret with a token of the same team.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// region is the slug of the region, such as fra1, unless the Machine names a failure domain, which wins. One of
	// the two is needed. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Region string `json:"region,omitempty"`

	// size is the slug of the size, such as s-2vcpu-4gb. Sizes with a GPU are not supported, because the cloud lists
	// their Droplets apart. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('gpu-')",message="sizes with a GPU are not supported"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="size is immutable: roll out a new DigitalOceanMachineTemplate instead"
	Size string `json:"size,omitempty"`

	// image is the slug of a public image, such as ubuntu-24-04-x64, or the ID of any image. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$`
	Image string `json:"image,omitempty"`

	// imageName is the name of a snapshot, backup or custom image of the team. Of several of this name the newest that
	// is available in the region is taken. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	ImageName string `json:"imageName,omitempty"`

	// sshKeys may log in as root: IDs or MD5 fingerprints of keys of the team. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^([1-9][0-9]{0,17}|[0-9a-f]{2}(:[0-9a-f]{2}){15})$`
	SSHKeys []string `json:"sshKeys,omitempty"`

	// vpcUUID is the ID of the VPC that the Droplet is in, which must be in the region. Default: the default VPC of
	// the region. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	VPCUUID string `json:"vpcUUID,omitempty"`

	// publicNetworking gives the Droplet public addresses. Without it, the Droplet reaches the cluster through its VPC
	// only. Default true. Immutable.
	// +optional
	// +default=true
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="publicNetworking is immutable: roll out a new DigitalOceanMachineTemplate instead"
	PublicNetworking *bool `json:"publicNetworking,omitempty"`

	// ipv6 gives the Droplet a public IPv6 address, too. Default false. Immutable.
	// +optional
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ipv6 is immutable: roll out a new DigitalOceanMachineTemplate instead"
	IPv6 *bool `json:"ipv6,omitempty"`

	// reservedIP makes a reserved IPv4 address, assigns it to the Droplet, and deletes it with the machine. Default
	// false. Immutable.
	// +optional
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="reservedIP is immutable: roll out a new DigitalOceanMachineTemplate instead"
	ReservedIP *bool `json:"reservedIP,omitempty"`

	// monitoring installs the metrics agent of the cloud. Default false. Immutable.
	// +optional
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="monitoring is immutable: roll out a new DigitalOceanMachineTemplate instead"
	Monitoring *bool `json:"monitoring,omitempty"`

	// dropletAgent installs the agent for the console in the control panel: true makes a failure to install it fatal,
	// false leaves it out. By default the cloud installs it where the image supports it. Immutable.
	// +optional
	DropletAgent *bool `json:"dropletAgent,omitempty"`

	// backups turns backups of the Droplet on, which cost a part of its price. Default false. Immutable.
	// +optional
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="backups is immutable: roll out a new DigitalOceanMachineTemplate instead"
	Backups *bool `json:"backups,omitempty"`

	// backupPolicy is when backups are made. The cloud's default is daily, at an hour of its choice. Immutable.
	// +optional
	BackupPolicy DigitalOceanBackupPolicy `json:"backupPolicy,omitempty,omitzero"`

	// volumes are made with the Droplet, attached to it and deleted with it. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	Volumes []DigitalOceanVolume `json:"volumes,omitempty"`

	// tags are set on the Droplet and its volumes, in addition to Drover's own; firewalls and load balancers select by
	// them. They have letters, digits, colons, dashes and underscores; upper and lower case are the same. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9_:-]+$`
	// +kubebuilder:validation:XValidation:rule="self.all(tag, !tag.lowerAscii().startsWith('drover'))",message="tags that start with drover are reserved"
	Tags []string `json:"tags,omitempty"`

	// fallbacks are tried in this order where there is no room for size in region. Those in another region do not count
	// for a Machine that names a failure domain. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []DigitalOceanFallback `json:"fallbacks,omitempty"`
}

// DigitalOceanBackupPolicy is when backups of a Droplet are made.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.weekday) == (self.plan == 'weekly')",message="weekday is required with the plan weekly, and only allowed there"
type DigitalOceanBackupPolicy struct {
	// plan is daily or weekly.
	// +required
	// +kubebuilder:validation:Enum=daily;weekly
	Plan string `json:"plan,omitempty"`

	// weekday is the day of weekly backups: SUN, MON, TUE, WED, THU, FRI or SAT.
	// +optional
	// +kubebuilder:validation:Enum=SUN;MON;TUE;WED;THU;FRI;SAT
	Weekday string `json:"weekday,omitempty"`

	// hour is the hour in UTC at which the window of four hours begins: 0, 4, 8, 12, 16 or 20.
	// +required
	// +kubebuilder:validation:Enum=0;4;8;12;16;20
	Hour *int32 `json:"hour,omitempty"`
}

// DigitalOceanVolume is a disk beside the Droplet's own.
type DigitalOceanVolume struct {
	// name distinguishes the volumes of a machine. The host has the volume as
	// /dev/disk/by-id/scsi-0DO_Volume_drover-<hash>-<name>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// sizeGiB is the size in GiB.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	SizeGiB int32 `json:"sizeGiB,omitempty"`

	// filesystemType is the file system that the cloud puts on it, ext4 or xfs; none by default. The cloud mounts a
	// volume with a file system under /mnt where the image supports it.
	// +optional
	// +kubebuilder:validation:Enum=ext4;xfs
	FilesystemType string `json:"filesystemType,omitempty"`
}

// DigitalOceanFallback is what to try instead.
// +kubebuilder:validation:MinProperties=1
type DigitalOceanFallback struct {
	// size replaces size; the same by default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('gpu-')",message="sizes with a GPU are not supported"
	Size string `json:"size,omitempty"`

	// region replaces region; the same by default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Region string `json:"region,omitempty"`
}

// DigitalOceanMachine is a Droplet in DigitalOcean.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=digitaloceanmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this DigitalOceanMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the Droplet"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Region",type="string",JSONPath=".status.failureDomain",description="Region the Droplet is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Size",type="string",JSONPath=".spec.size",priority=10,description="Size"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type DigitalOceanMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec DigitalOceanMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *DigitalOceanMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *DigitalOceanMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *DigitalOceanMachine) GetStatus() *MachineStatus { return &m.Status }

// DigitalOceanMachineList is a list of DigitalOceanMachines.
// +kubebuilder:object:root=true
type DigitalOceanMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DigitalOceanMachines.
	Items []DigitalOceanMachine `json:"items"`
}
