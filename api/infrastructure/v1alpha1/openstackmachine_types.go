// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OpenStackMachineSpec is what a server in OpenStack should be. It is immutable: to change it, create a template of another
// name and refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may be changed, so
// that a machine can always be reached and deleted.
//
// Networks, subnets, security groups, flavors and server groups are named by ID or by name. A name has to
// fit exactly one of those that are visible to the project.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialsSecretName) || has(self.credentialsSecretName)",message="credentialsSecretName may name another Secret and must not be removed: the provider's own credentials are for machines that were made with them"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.region) == has(oldSelf.region) && (!has(self.region) || self.region == oldSelf.region)",message="region is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.regionalProviderID) == has(oldSelf.regionalProviderID) && (!has(self.regionalProviderID) || self.regionalProviderID == oldSelf.regionalProviderID)",message="regionalProviderID is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.securityGroups) == has(oldSelf.securityGroups) && (!has(self.securityGroups) || self.securityGroups == oldSelf.securityGroups)",message="securityGroups is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.floatingIP) == has(oldSelf.floatingIP) && (!has(self.floatingIP) || self.floatingIP == oldSelf.floatingIP)",message="floatingIP is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.serverGroup) == has(oldSelf.serverGroup) && (!has(self.serverGroup) || self.serverGroup == oldSelf.serverGroup)",message="serverGroup is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.availabilityZone) == has(oldSelf.availabilityZone) && (!has(self.availabilityZone) || self.availabilityZone == oldSelf.availabilityZone)",message="availabilityZone is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.rootVolume) == has(oldSelf.rootVolume) && (!has(self.rootVolume) || self.rootVolume == oldSelf.rootVolume)",message="rootVolume is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.volumes) == has(oldSelf.volumes) && (!has(self.volumes) || self.volumes == oldSelf.volumes)",message="volumes is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.keyPair) == has(oldSelf.keyPair) && (!has(self.keyPair) || self.keyPair == oldSelf.keyPair)",message="keyPair is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadata) == has(oldSelf.metadata) && (!has(self.metadata) || self.metadata == oldSelf.metadata)",message="metadata is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.configDrive) == has(oldSelf.configDrive) && (!has(self.configDrive) || self.configDrive == oldSelf.configDrive)",message="configDrive is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.schedulerHints) == has(oldSelf.schedulerHints) && (!has(self.schedulerHints) || self.schedulerHints == oldSelf.schedulerHints)",message="schedulerHints is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks is immutable: roll out a new OpenStackMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="!has(self.rootVolume) || !has(self.volumes) || self.volumes.all(v, v.name != 'root')",message="a volume named root is the rootVolume: give the other one another name"
type OpenStackMachineSpec struct {
	// providerID is the identifier that the Node has, too, openstack:///<server ID>, or
	// openstack://<region>/<server ID> with regionalProviderID. It is set by the provider; set it yourself
	// only to adopt a server of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with a clouds.yaml, or with the OS_* variables
	// of an openrc file. Without it the provider's own environment counts. It may be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// region is the region of the services to use. Default is the one that the credentials name, or the
	// only one there is. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Region string `json:"region,omitempty"`

	// regionalProviderID puts the region into the provider ID. Set it if the cloud controller manager of
	// the workload cluster runs with OS_CCM_REGIONAL=true, and only then. Default false. Immutable.
	// +optional
	RegionalProviderID *bool `json:"regionalProviderID,omitempty"`

	// flavor is the ID or name of the flavor. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="flavor is immutable: roll out a new OpenStackMachineTemplate instead"
	Flavor string `json:"flavor,omitempty"`

	// image is what the server boots from. It is looked up each time a server is made. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new OpenStackMachineTemplate instead"
	Image OpenStackImage `json:"image,omitempty,omitzero"`

	// ports are the network interfaces, in order. The first is the one that the Node is reached by.
	// Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ports are immutable: roll out a new OpenStackMachineTemplate instead"
	Ports []OpenStackPort `json:"ports,omitempty"`

	// securityGroups are the IDs or names of the security groups of every port that does not name its own.
	// Without any the project's default group applies. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	SecurityGroups []string `json:"securityGroups,omitempty"`

	// floatingIP gives the first port a floating IP, which goes with the machine. Immutable.
	// +optional
	FloatingIP OpenStackFloatingIP `json:"floatingIP,omitempty,omitzero"`

	// serverGroup spreads the servers over hosts or keeps them together. Immutable.
	// +optional
	ServerGroup OpenStackServerGroup `json:"serverGroup,omitempty,omitzero"`

	// availabilityZone is where the server is placed unless the Machine names a failure domain, which wins.
	// Without either the cloud chooses. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	AvailabilityZone string `json:"availabilityZone,omitempty"`

	// rootVolume boots the server from a new volume made from the image, instead of the flavor's own disk.
	// Immutable.
	// +optional
	RootVolume OpenStackVolume `json:"rootVolume,omitempty,omitzero"`

	// volumes are empty volumes attached to the server besides. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Volumes []OpenStackDataVolume `json:"volumes,omitempty"`

	// keyPair is the name of the key pair whose public key the server gets. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	KeyPair string `json:"keyPair,omitempty"`

	// metadata is put on the server. Keys that start with drover.io are taken. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-zA-Z0-9-_:. ]{1,255}$') && size(self[key]) <= 255)",message="keys have letters, digits, -, _, :, . and spaces; keys and values have at most 255 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^(?i)drover[.]io'))",message="keys that start with drover.io, in upper or lower case, are reserved"
	Metadata map[string]string `json:"metadata,omitempty"`

	// tags are put on the server. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=60
	// +kubebuilder:validation:items:Pattern=`^[^,/]+$`
	// +kubebuilder:validation:XValidation:rule="self.all(tag, tag != 'drover' && !tag.startsWith('drover-'))",message="tags that start with drover are reserved"
	Tags []string `json:"tags,omitempty"`

	// configDrive gives the server its metadata on a disk besides the metadata service. Default is the
	// cloud's. Immutable.
	// +optional
	ConfigDrive *bool `json:"configDrive,omitempty"`

	// schedulerHints are handed to the cloud's scheduler as they are, such as different_cell. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, key != 'group' && size(key) <= 255 && size(self[key]) <= 255)",message="keys and values have at most 255 characters, and the group belongs in serverGroup"
	SchedulerHints map[string]string `json:"schedulerHints,omitempty"`

	// fallbacks are requested in their order if the cloud has no capacity or quota for the spec.
	// Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Fallbacks []OpenStackFallback `json:"fallbacks,omitempty"`
}

// OpenStackMachine is a server in OpenStack with its ports, volumes and floating IP.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=openstackmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this OpenStackMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the server"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Flavor",type="string",JSONPath=".spec.flavor",description="Flavor"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Availability zone the server is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type OpenStackMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec OpenStackMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *OpenStackMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *OpenStackMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *OpenStackMachine) GetStatus() *MachineStatus { return &m.Status }

// OpenStackMachineList is a list of OpenStackMachines.
// +kubebuilder:object:root=true
type OpenStackMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the OpenStackMachines.
	Items []OpenStackMachine `json:"items"`
}
