// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AzureMachineSpec is what a virtual machine of Azure should be. It is immutable: to change it, create a template of another
// name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="!has(self.availabilitySetID) || !has(self.zone) && (!has(self.fallbacks) || self.fallbacks.all(f, !has(f.zone)))",message="a virtual machine is in a zone or in an availability set: leave zone out of spec and fallbacks, or availabilitySetID"
// +kubebuilder:validation:XValidation:rule="!has(self.availabilitySetID) || self.priority != 'Spot' && (!has(self.fallbacks) || self.fallbacks.all(f, !has(f.priority) || f.priority != 'Spot'))",message="a Spot VM cannot be in an availability set"
// +kubebuilder:validation:XValidation:rule="!has(self.capacityReservationGroupID) || self.priority != 'Spot' && (!has(self.fallbacks) || self.fallbacks.all(f, !has(f.priority) || f.priority != 'Spot'))",message="a Spot VM cannot use a capacity reservation"
// +kubebuilder:validation:XValidation:rule="!has(self.spot) || self.priority == 'Spot' || has(self.fallbacks) && self.fallbacks.exists(f, has(f.priority) && f.priority == 'Spot')",message="spot needs the priority Spot, in the spec or in a fallback"
// +kubebuilder:validation:XValidation:rule="!has(self.osDisk) || !has(self.osDisk.ephemeral) || !has(self.spot) || !has(self.spot.evictionPolicy) || self.spot.evictionPolicy != 'Deallocate'",message="a virtual machine with an ephemeral osDisk cannot be deallocated: set spot.evictionPolicy to Delete"
// +kubebuilder:validation:XValidation:rule="!has(self.osDisk) || !has(self.osDisk.securityEncryptionType) || has(self.security) && has(self.security.type) && self.security.type == 'ConfidentialVM'",message="osDisk.securityEncryptionType needs security.type ConfidentialVM"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.subscriptionID) == has(oldSelf.subscriptionID) && (!has(self.subscriptionID) || self.subscriptionID == oldSelf.subscriptionID)",message="subscriptionID is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",message="zone is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.osDisk) == has(oldSelf.osDisk) && (!has(self.osDisk) || self.osDisk == oldSelf.osDisk)",message="osDisk is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.dataDisks) == has(oldSelf.dataDisks) && (!has(self.dataDisks) || self.dataDisks == oldSelf.dataDisks)",message="dataDisks are immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.availabilitySetID) == has(oldSelf.availabilitySetID) && (!has(self.availabilitySetID) || self.availabilitySetID == oldSelf.availabilitySetID)",message="availabilitySetID is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.proximityPlacementGroupID) == has(oldSelf.proximityPlacementGroupID) && (!has(self.proximityPlacementGroupID) || self.proximityPlacementGroupID == oldSelf.proximityPlacementGroupID)",message="proximityPlacementGroupID is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.capacityReservationGroupID) == has(oldSelf.capacityReservationGroupID) && (!has(self.capacityReservationGroupID) || self.capacityReservationGroupID == oldSelf.capacityReservationGroupID)",message="capacityReservationGroupID is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.spot) == has(oldSelf.spot) && (!has(self.spot) || self.spot == oldSelf.spot)",message="spot is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.security) == has(oldSelf.security) && (!has(self.security) || self.security == oldSelf.security)",message="security is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.bootDiagnostics) == has(oldSelf.bootDiagnostics) && (!has(self.bootDiagnostics) || self.bootDiagnostics == oldSelf.bootDiagnostics)",message="bootDiagnostics is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.systemAssignedIdentity) == has(oldSelf.systemAssignedIdentity) && (!has(self.systemAssignedIdentity) || self.systemAssignedIdentity == oldSelf.systemAssignedIdentity)",message="systemAssignedIdentity is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.userAssignedIdentities) == has(oldSelf.userAssignedIdentities) && (!has(self.userAssignedIdentities) || self.userAssignedIdentities == oldSelf.userAssignedIdentities)",message="userAssignedIdentities are immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.diskControllerType) == has(oldSelf.diskControllerType) && (!has(self.diskControllerType) || self.diskControllerType == oldSelf.diskControllerType)",message="diskControllerType is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.adminUsername) == has(oldSelf.adminUsername) && (!has(self.adminUsername) || self.adminUsername == oldSelf.adminUsername)",message="adminUsername is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sshPublicKeys) == has(oldSelf.sshPublicKeys) && (!has(self.sshPublicKeys) || self.sshPublicKeys == oldSelf.sshPublicKeys)",message="sshPublicKeys are immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrapData) == has(oldSelf.bootstrapData) && (!has(self.bootstrapData) || self.bootstrapData == oldSelf.bootstrapData)",message="bootstrapData is immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new AzureMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new AzureMachineTemplate instead"
type AzureMachineSpec struct {
	// providerID is the identifier that the Node has, too,
	// azure:///subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/virtualMachines/<name>. It is set by the
	// provider; set it yourself only to adopt a virtual machine of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the keys tenantID, clientID and clientSecret, and optionally
	// subscriptionID. Without it the provider uses its own identity: its environment, its workload identity or the managed identity
	// of the host that it runs on. Immutable, but the Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// subscriptionID is the subscription of the virtual machine. Default the subscriptionID of the Secret, or without a Secret
	// AZURE_SUBSCRIPTION_ID of the provider's environment. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	SubscriptionID string `json:"subscriptionID,omitempty"`

	// resourceGroup is the resource group of the virtual machine and all that is created beside it. It must exist. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=90
	// +kubebuilder:validation:Pattern=`^[-\w._()]*[-\w_()]$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="resourceGroup is immutable: roll out a new AzureMachineTemplate instead"
	ResourceGroup string `json:"resourceGroup,omitempty"`

	// location is the region of the virtual machine, such as westeurope. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="location is immutable: roll out a new AzureMachineTemplate instead"
	Location string `json:"location,omitempty"`

	// zone is the availability zone, such as 1, unless the Machine names a failure domain, which wins. Without both the virtual
	// machine is in no zone. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]?$`
	Zone string `json:"zone,omitempty"`

	// vmSize is the size, such as Standard_D4s_v5. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][-A-Za-z0-9_]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vmSize is immutable: roll out a new AzureMachineTemplate instead"
	VMSize string `json:"vmSize,omitempty"`

	// image is the image to boot. It must have cloud-init or Ignition. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new AzureMachineTemplate instead"
	Image AzureImage `json:"image,omitempty,omitzero"`

	// osDisk changes the OS disk. Immutable.
	// +optional
	OSDisk AzureOSDisk `json:"osDisk,omitempty,omitzero"`

	// dataDisks are further disks. They are created and deleted with the virtual machine. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	DataDisks []AzureDataDisk `json:"dataDisks,omitempty"`

	// networkInterface is the network interface. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networkInterface is immutable: roll out a new AzureMachineTemplate instead"
	NetworkInterface AzureNetworkInterface `json:"networkInterface,omitempty,omitzero"`

	// availabilitySetID is the resource ID of an availability set in the resource group of the machine, for locations without
	// zones. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Compute/availabilitySets/[-\w.]{1,80}$`
	AvailabilitySetID string `json:"availabilitySetID,omitempty"`

	// proximityPlacementGroupID is the resource ID of a proximity placement group. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Compute/proximityPlacementGroups/[-\w.]{1,80}$`
	ProximityPlacementGroupID string `json:"proximityPlacementGroupID,omitempty"`

	// capacityReservationGroupID is the resource ID of a capacity reservation group to use. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Compute/capacityReservationGroups/[-\w.]{1,80}$`
	CapacityReservationGroupID string `json:"capacityReservationGroupID,omitempty"`

	// priority is Regular, or Spot for a virtual machine that Azure may evict at any time. An evicted one is never started again.
	// Default Regular. Immutable.
	// +optional
	// +default="Regular"
	// +kubebuilder:validation:Enum=Regular;Spot
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="priority is immutable: roll out a new AzureMachineTemplate instead"
	Priority string `json:"priority,omitempty"`

	// spot are the settings of a Spot VM. Immutable.
	// +optional
	Spot AzureSpot `json:"spot,omitempty,omitzero"`

	// security are security settings. Immutable.
	// +optional
	Security AzureSecurity `json:"security,omitempty,omitzero"`

	// bootDiagnostics stores the console, in storage that Azure manages, so that a machine that does not join can explain why.
	// Default true. Immutable.
	// +optional
	BootDiagnostics *bool `json:"bootDiagnostics,omitempty"`

	// systemAssignedIdentity gives the virtual machine a managed identity of its own: every process and pod on it that reaches the
	// metadata service may act as it. Default false. Immutable.
	// +optional
	SystemAssignedIdentity *bool `json:"systemAssignedIdentity,omitempty"`

	// userAssignedIdentities are the resource IDs of managed identities: every process and pod on the virtual machine that reaches
	// the metadata service may act as them. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/[-\w]{3,128}$`
	UserAssignedIdentities []string `json:"userAssignedIdentities,omitempty"`

	// diskControllerType is SCSI or NVMe. Default that of Azure for size and image. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=SCSI;NVMe
	DiskControllerType string `json:"diskControllerType,omitempty"`

	// adminUsername is the user that Azure has the guest create. It has no password. Default drover. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z][-a-z0-9_]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['administrator', 'admin', 'user', 'user1', 'test', 'user2', 'test1', 'user3', 'admin1', 'actuser', 'adm', 'admin2', 'aspnet', 'backup', 'console', 'david', 'guest', 'john', 'owner', 'root', 'server', 'sql', 'support', 'support_388945a0', 'sys', 'test2', 'test3', 'user4', 'user5'])",message="Azure refuses this name"
	AdminUsername string `json:"adminUsername,omitempty"`

	// sshPublicKeys are the public keys of adminUsername, in OpenSSH's format. Azure requires one: without any, it is a key whose
	// private half does not exist. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:Pattern=`^(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/=]+( [-\w.@ ]*)?$`
	SSHPublicKeys []string `json:"sshPublicKeys,omitempty"`

	// bootstrapData is CustomData or UserData: how the guest gets its bootstrap data. Custom data is on a medium that only root can
	// read; user data is readable by every process that reaches the metadata service. Default CustomData. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=CustomData;UserData
	BootstrapData string `json:"bootstrapData,omitempty"`

	// tags are put on the virtual machine and all that is created beside it, beside the provider's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=40
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() > 0 && key.size() <= 256 && !key.matches('[<>%&\\\\\\\\?/]') && !key.lowerAscii().startsWith('drover-') && !key.lowerAscii().startsWith('microsoft') && !key.lowerAscii().startsWith('azure') && !key.lowerAscii().startsWith('windows'))",message="keys have up to 256 characters without <>%&\\?/, and do not begin with drover-, microsoft, azure or windows"
	// +kubebuilder:validation:XValidation:rule="self.all(key, self.all(other, key == other || key.lowerAscii() != other.lowerAscii()))",message="keys that differ only in case are the same tag"
	Tags map[string]AzureTagValue `json:"tags,omitempty"`

	// fallbacks are the alternatives, in order, if Azure has no capacity or the subscription no quota for the spec. Those with
	// another zone than the Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []AzureFallback `json:"fallbacks,omitempty"`
}

// AzureMachine is a virtual machine of Azure.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=azuremachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this AzureMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the virtual machine is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Size",type="string",JSONPath=".spec.vmSize",priority=10,description="Requested size"
type AzureMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec AzureMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *AzureMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *AzureMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *AzureMachine) GetStatus() *MachineStatus { return &m.Status }

// AzureMachineList is a list of AzureMachines.
// +kubebuilder:object:root=true
type AzureMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AzureMachines.
	Items []AzureMachine `json:"items"`
}
