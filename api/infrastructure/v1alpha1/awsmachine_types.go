// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AWSMachineSpec is what an EC2 instance should be. It is immutable: to change it, create a template of another name and refer
// to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.launchTemplate)",message="one of image and launchTemplate must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.rootVolume) || has(self.image)",message="rootVolume needs image: without it, describe the root volume in the launch template"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || !(has(self.publicIP) || has(self.ipv6AddressCount) || has(self.networkInterfaces))",message="publicIP, ipv6AddressCount and networkInterfaces need subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.networkInterfaces) || !has(self.publicIP) || !self.publicIP",message="EC2 gives no public IP to an instance with several networkInterfaces: leave publicIP out or false"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",message="zone is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image)",message="image is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.launchTemplate) == has(oldSelf.launchTemplate) && (!has(self.launchTemplate) || self.launchTemplate == oldSelf.launchTemplate)",message="launchTemplate is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) == has(oldSelf.subnet) && (!has(self.subnet) || self.subnet == oldSelf.subnet)",message="subnet is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.securityGroups) == has(oldSelf.securityGroups) && (!has(self.securityGroups) || self.securityGroups == oldSelf.securityGroups)",message="securityGroups are immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.publicIP) == has(oldSelf.publicIP) && (!has(self.publicIP) || self.publicIP == oldSelf.publicIP)",message="publicIP is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.ipv6AddressCount) == has(oldSelf.ipv6AddressCount) && (!has(self.ipv6AddressCount) || self.ipv6AddressCount == oldSelf.ipv6AddressCount)",message="ipv6AddressCount is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networkInterfaces) == has(oldSelf.networkInterfaces) && (!has(self.networkInterfaces) || self.networkInterfaces == oldSelf.networkInterfaces)",message="networkInterfaces are immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.instanceProfile) == has(oldSelf.instanceProfile) && (!has(self.instanceProfile) || self.instanceProfile == oldSelf.instanceProfile)",message="instanceProfile is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.keyName) == has(oldSelf.keyName) && (!has(self.keyName) || self.keyName == oldSelf.keyName)",message="keyName is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.spot) == has(oldSelf.spot) && (!has(self.spot) || self.spot == oldSelf.spot)",message="spot is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.rootVolume) == has(oldSelf.rootVolume) && (!has(self.rootVolume) || self.rootVolume == oldSelf.rootVolume)",message="rootVolume is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.volumes) == has(oldSelf.volumes) && (!has(self.volumes) || self.volumes == oldSelf.volumes)",message="volumes are immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",message="placement is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.capacityReservation) == has(oldSelf.capacityReservation) && (!has(self.capacityReservation) || self.capacityReservation == oldSelf.capacityReservation)",message="capacityReservation is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu)",message="cpu is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.detailedMonitoring) == has(oldSelf.detailedMonitoring) && (!has(self.detailedMonitoring) || self.detailedMonitoring == oldSelf.detailedMonitoring)",message="detailedMonitoring is immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new AWSMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="self.metadata == oldSelf.metadata",message="metadata is immutable: roll out a new AWSMachineTemplate instead"
type AWSMachineSpec struct {
	// providerID is the identifier that the Node has, too, aws:///<zone>/<instance>. It is set by the
	// provider; set it yourself only to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the keys AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Without it the provider uses
	// its own identity: its environment, web identity or instance profile. Immutable, but the Secret's
	// content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// region is the region of the instance, such as eu-central-1. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="region is immutable: roll out a new AWSMachineTemplate instead"
	Region string `json:"region,omitempty"`

	// zone is the availability zone, such as eu-central-1a, unless the Machine names a failure domain, which
	// wins. Without either, the subnet or EC2 decides. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// instanceType is the type of the instance, such as m7i.large. It wins over the launch template's.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9]*\.[-a-z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instanceType is immutable: roll out a new AWSMachineTemplate instead"
	InstanceType string `json:"instanceType,omitempty"`

	// image is the AMI to boot. It may be left out if the launch template has one. Immutable.
	// +optional
	Image AWSImage `json:"image,omitempty,omitzero"`

	// launchTemplate gives everything that this spec leaves out. Immutable.
	// +optional
	LaunchTemplate AWSLaunchTemplate `json:"launchTemplate,omitempty,omitzero"`

	// subnet is where the primary network interface is. Of several subnets that match, one in the wanted zone
	// is chosen, spread over the machines. Without it, the launch template's or the default VPC's is used.
	// Immutable.
	// +optional
	Subnet AWSSelector `json:"subnet,omitempty,omitzero"`

	// securityGroups are the security groups of the primary network interface; each selector adds all groups
	// that match. Without them, the launch template's or the VPC's default group is used. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	SecurityGroups []AWSSelector `json:"securityGroups,omitempty"`

	// publicIP decides whether the primary network interface gets a public IPv4 address. Without it, the
	// subnet decides. Immutable.
	// +optional
	PublicIP *bool `json:"publicIP,omitempty"`

	// ipv6AddressCount is how many IPv6 addresses the primary network interface gets. Without it, the subnet
	// decides. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	IPv6AddressCount *int32 `json:"ipv6AddressCount,omitempty"`

	// networkInterfaces are further network interfaces, in order of their device index from 1. They are
	// deleted with the instance. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=14
	NetworkInterfaces []AWSNetworkInterface `json:"networkInterfaces,omitempty"`

	// instanceProfile is the name or ARN of the IAM instance profile. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	InstanceProfile string `json:"instanceProfile,omitempty"`

	// keyName is the key pair whose public key may log in by SSH. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	KeyName string `json:"keyName,omitempty"`

	// spot requests a spot instance, which EC2 may reclaim at any time. Without it the instance is on demand.
	// Immutable.
	// +optional
	Spot *AWSSpot `json:"spot,omitempty"`

	// fallbacks are the alternatives, in order, if EC2 has no capacity or the account no quota for
	// the spec. Those with another zone than the Machine's failure domain are left out.
	// Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []AWSFallback `json:"fallbacks,omitempty"`

	// rootVolume changes the root volume of the image. Immutable.
	// +optional
	RootVolume AWSVolume `json:"rootVolume,omitempty,omitzero"`

	// volumes are further EBS volumes. They are deleted with the instance. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=deviceName
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=26
	Volumes []AWSDataVolume `json:"volumes,omitempty"`

	// metadata is how the instance metadata service answers. Immutable.
	// +optional
	// +default={}
	Metadata AWSMetadata `json:"metadata,omitempty,omitzero"`

	// placement is which hosts the instance may be on. Immutable.
	// +optional
	Placement AWSPlacement `json:"placement,omitempty,omitzero"`

	// capacityReservation is which capacity reservation the instance may use. Immutable.
	// +optional
	CapacityReservation AWSCapacityReservation `json:"capacityReservation,omitempty,omitzero"`

	// cpu changes the number of cores and threads of the instance type. Immutable.
	// +optional
	CPU AWSCPU `json:"cpu,omitempty,omitzero"`

	// detailedMonitoring publishes metrics each minute instead of every five. Immutable.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`

	// tags are put on the instance, its volumes and network interfaces, beside the provider's own. The tag
	// Name is the machine's name unless it is here. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=40
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('aws:') && !key.startsWith('drover.io/') && size(key) <= 128 && size(self[key]) <= 256)",message="keys have up to 128 characters and must not begin with aws: or drover.io/, values have up to 256"
	Tags map[string]string `json:"tags,omitempty"`
}

// AWSMachine is an EC2 instance.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=awsmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this AWSMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="InstanceType",type="string",JSONPath=".spec.instanceType",priority=10,description="Requested instance type"
type AWSMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec AWSMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *AWSMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *AWSMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *AWSMachine) GetStatus() *MachineStatus { return &m.Status }

// AWSMachineList is a list of AWSMachines.
// +kubebuilder:object:root=true
type AWSMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AWSMachines.
	Items []AWSMachine `json:"items"`
}
