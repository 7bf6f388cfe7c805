// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AlibabaMachineSpec is what an ECS instance should be. It is immutable: to change it, create a template of another name and
// refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="has(self.internetMaxBandwidthOut) || !has(self.internetChargeType)",message="internetChargeType needs internetMaxBandwidthOut"
// +kubebuilder:validation:XValidation:rule="has(self.deploymentSetID) || !has(self.deploymentSetGroup)",message="deploymentSetGroup needs deploymentSetID"
// +kubebuilder:validation:XValidation:rule="!has(self.dedicatedHostID) || !has(self.spot)",message="there are no spot instances on dedicated hosts: leave spot out"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="self.image == oldSelf.image",message="image is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="self.vSwitches == oldSelf.vSwitches",message="vSwitches are immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="self.securityGroupIDs == oldSelf.securityGroupIDs",message="securityGroupIDs are immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.internetMaxBandwidthOut) == has(oldSelf.internetMaxBandwidthOut) && (!has(self.internetMaxBandwidthOut) || self.internetMaxBandwidthOut == oldSelf.internetMaxBandwidthOut)",message="internetMaxBandwidthOut is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.internetChargeType) == has(oldSelf.internetChargeType) && (!has(self.internetChargeType) || self.internetChargeType == oldSelf.internetChargeType)",message="internetChargeType is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.ipv6AddressCount) == has(oldSelf.ipv6AddressCount) && (!has(self.ipv6AddressCount) || self.ipv6AddressCount == oldSelf.ipv6AddressCount)",message="ipv6AddressCount is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.systemDisk) == has(oldSelf.systemDisk) && (!has(self.systemDisk) || self.systemDisk == oldSelf.systemDisk)",message="systemDisk is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dataDisks) == has(oldSelf.dataDisks) && (!has(self.dataDisks) || self.dataDisks == oldSelf.dataDisks)",message="dataDisks are immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.ramRoleName) == has(oldSelf.ramRoleName) && (!has(self.ramRoleName) || self.ramRoleName == oldSelf.ramRoleName)",message="ramRoleName is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.keyPairName) == has(oldSelf.keyPairName) && (!has(self.keyPairName) || self.keyPairName == oldSelf.keyPairName)",message="keyPairName is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.spot) == has(oldSelf.spot) && (!has(self.spot) || self.spot == oldSelf.spot)",message="spot is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadata) == has(oldSelf.metadata) && (!has(self.metadata) || self.metadata == oldSelf.metadata)",message="metadata is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.deploymentSetID) == has(oldSelf.deploymentSetID) && (!has(self.deploymentSetID) || self.deploymentSetID == oldSelf.deploymentSetID)",message="deploymentSetID is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.deploymentSetGroup) == has(oldSelf.deploymentSetGroup) && (!has(self.deploymentSetGroup) || self.deploymentSetGroup == oldSelf.deploymentSetGroup)",message="deploymentSetGroup is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dedicatedHostID) == has(oldSelf.dedicatedHostID) && (!has(self.dedicatedHostID) || self.dedicatedHostID == oldSelf.dedicatedHostID)",message="dedicatedHostID is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.privatePool) == has(oldSelf.privatePool) && (!has(self.privatePool) || self.privatePool == oldSelf.privatePool)",message="privatePool is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu)",message="cpu is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.creditSpecification) == has(oldSelf.creditSpecification) && (!has(self.creditSpecification) || self.creditSpecification == oldSelf.creditSpecification)",message="creditSpecification is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.securityHardening) == has(oldSelf.securityHardening) && (!has(self.securityHardening) || self.securityHardening == oldSelf.securityHardening)",message="securityHardening is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.trustedSystemMode) == has(oldSelf.trustedSystemMode) && (!has(self.trustedSystemMode) || self.trustedSystemMode == oldSelf.trustedSystemMode)",message="trustedSystemMode is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.resourceGroupID) == has(oldSelf.resourceGroupID) && (!has(self.resourceGroupID) || self.resourceGroupID == oldSelf.resourceGroupID)",message="resourceGroupID is immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new AlibabaMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new AlibabaMachineTemplate instead"
type AlibabaMachineSpec struct {
	// providerID is the identifier that the Node has, too, alicloud://<region>.<instance>. It is set by the provider; set it
	// yourself only to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the keys ALIBABA_CLOUD_ACCESS_KEY_ID,
	// ALIBABA_CLOUD_ACCESS_KEY_SECRET and, for temporary credentials, ALIBABA_CLOUD_SECURITY_TOKEN. Without it the provider uses
	// its own identity: its environment, the role of its ServiceAccount or the RAM role of its instance. Immutable, but the
	// Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// regionID is the region of the instance, such as eu-central-1. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="regionID is immutable: roll out a new AlibabaMachineTemplate instead"
	RegionID string `json:"regionID,omitempty"`

	// zoneID is the zone, such as eu-central-1a, unless the Machine names a failure domain, which wins. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zoneID is immutable: roll out a new AlibabaMachineTemplate instead"
	ZoneID string `json:"zoneID,omitempty"`

	// instanceType is the type of the instance, such as ecs.g8i.large. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^ecs\.[a-z0-9][-a-z0-9.]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instanceType is immutable: roll out a new AlibabaMachineTemplate instead"
	InstanceType string `json:"instanceType,omitempty"`

	// image is what the system disk is made from. Immutable.
	// +required
	Image AlibabaImage `json:"image,omitempty,omitzero"`

	// vSwitches are the vSwitches of the network interface, one for each zone in which the instance may be. Immutable.
	// +required
	// +listType=map
	// +listMapKey=zoneID
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	VSwitches []AlibabaVSwitch `json:"vSwitches,omitempty"`

	// securityGroupIDs are the security groups of the network interface, all of the VPC of the vSwitches. Immutable.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// internetMaxBandwidthOut gives the instance a public IPv4 address, which ends with it, and is the maximum bandwidth out to
	// the Internet in Mbit/s. Without it there is no public address. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	InternetMaxBandwidthOut *int32 `json:"internetMaxBandwidthOut,omitempty"`

	// internetChargeType is PayByTraffic or PayByBandwidth. Default PayByTraffic. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=PayByTraffic;PayByBandwidth
	InternetChargeType string `json:"internetChargeType,omitempty"`

	// ipv6AddressCount is how many IPv6 addresses of the vSwitch the instance gets. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	IPv6AddressCount *int32 `json:"ipv6AddressCount,omitempty"`

	// systemDisk changes the system disk. Immutable.
	// +optional
	SystemDisk AlibabaDisk `json:"systemDisk,omitempty,omitzero"`

	// dataDisks are further disks. They are deleted with the instance. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DataDisks []AlibabaDataDisk `json:"dataDisks,omitempty"`

	// ramRoleName is the RAM role of the instance. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	RAMRoleName string `json:"ramRoleName,omitempty"`

	// keyPairName is the key pair whose public key may log in by SSH. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	KeyPairName string `json:"keyPairName,omitempty"`

	// spot requests a spot instance, which ECS may reclaim at any time after its first hour. Without it the instance is
	// pay-as-you-go. Immutable.
	// +optional
	Spot *AlibabaSpot `json:"spot,omitempty"`

	// metadata is how the metadata service answers. Immutable.
	// +optional
	Metadata AlibabaMetadata `json:"metadata,omitempty,omitzero"`

	// deploymentSetID is the deployment set, which spreads its instances over hosts. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DeploymentSetID string `json:"deploymentSetID,omitempty"`

	// deploymentSetGroup is the group of a deployment set of the strategy AvailabilityGroup. Default one that ECS chooses.
	// Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	DeploymentSetGroup *int32 `json:"deploymentSetGroup,omitempty"`

	// dedicatedHostID is the dedicated host. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DedicatedHostID string `json:"dedicatedHostID,omitempty"`

	// privatePool is which reserved capacity the instance may use. Immutable.
	// +optional
	PrivatePool AlibabaPrivatePool `json:"privatePool,omitempty,omitzero"`

	// cpu changes the number of cores and threads of the instance type. Immutable.
	// +optional
	CPU AlibabaCPU `json:"cpu,omitempty,omitzero"`

	// creditSpecification is Standard or Unlimited, for burstable types. Default that of the type. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=Standard;Unlimited
	CreditSpecification string `json:"creditSpecification,omitempty"`

	// securityHardening is Active, so that Alibaba Cloud installs its security agent on public images, or Deactive. Default that
	// of ECS. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=Active;Deactive
	SecurityHardening string `json:"securityHardening,omitempty"`

	// trustedSystemMode is vTPM, for types with trusted boot. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=vTPM
	TrustedSystemMode string `json:"trustedSystemMode,omitempty"`

	// resourceGroupID is the resource group of the instance and its disks. Default the account's default group. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ResourceGroupID string `json:"resourceGroupID,omitempty"`

	// tags are put on the instance, its disks and its network interface, beside the provider's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=15
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) > 0 && size(key) <= 128 && size(self[key]) <= 128 && !key.startsWith('aliyun') && !key.startsWith('acs:') && !key.startsWith('drover.io/') && !key.contains('http://') && !key.contains('https://') && !self[key].contains('http://') && !self[key].contains('https://'))",message="keys and values have up to 128 characters and no http:// or https://, and keys must not begin with aliyun, acs: or drover.io/"
	Tags map[string]string `json:"tags,omitempty"`

	// fallbacks are the alternatives, in order, if ECS has no stock or the account no quota for the spec. Those with another zone
	// than the Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []AlibabaFallback `json:"fallbacks,omitempty"`
}

// AlibabaMachine is an ECS instance of Alibaba Cloud.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=alibabamachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this AlibabaMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="InstanceType",type="string",JSONPath=".spec.instanceType",priority=10,description="Requested instance type"
type AlibabaMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec AlibabaMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *AlibabaMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *AlibabaMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *AlibabaMachine) GetStatus() *MachineStatus { return &m.Status }

// AlibabaMachineList is a list of AlibabaMachines.
// +kubebuilder:object:root=true
type AlibabaMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AlibabaMachines.
	Items []AlibabaMachine `json:"items"`
}
