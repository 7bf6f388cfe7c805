// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GoogleMachineSpec is what an instance of Compute Engine should be. It is immutable: to change it, create a template of
// another name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="self.provisioningModel != 'SPOT' || !has(self.automaticRestart) || !self.automaticRestart",message="Compute Engine never restarts a Spot VM: leave automaticRestart out or false"
// +kubebuilder:validation:XValidation:rule="self.provisioningModel != 'SPOT' || !has(self.onHostMaintenance) || self.onHostMaintenance == 'TERMINATE'",message="a Spot VM is not migrated: leave onHostMaintenance out or TERMINATE"
// +kubebuilder:validation:XValidation:rule="!has(self.guestAccelerators) || !has(self.onHostMaintenance) || self.onHostMaintenance == 'TERMINATE'",message="an instance with guestAccelerators is not migrated: leave onHostMaintenance out or TERMINATE"
// +kubebuilder:validation:XValidation:rule="!has(self.fallbacks) || !has(self.automaticRestart) || !self.automaticRestart || !self.fallbacks.exists(f, has(f.provisioningModel) && f.provisioningModel == 'SPOT')",message="Compute Engine never restarts a Spot VM: leave automaticRestart out or false if a fallback is SPOT"
// +kubebuilder:validation:XValidation:rule="!has(self.fallbacks) || !has(self.onHostMaintenance) || self.onHostMaintenance == 'TERMINATE' || !self.fallbacks.exists(f, has(f.provisioningModel) && f.provisioningModel == 'SPOT')",message="a Spot VM is not migrated: leave onHostMaintenance out or TERMINATE if a fallback is SPOT"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.bootDisk) == has(oldSelf.bootDisk) && (!has(self.bootDisk) || self.bootDisk == oldSelf.bootDisk)",message="bootDisk is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.disks) == has(oldSelf.disks) && (!has(self.disks) || self.disks == oldSelf.disks)",message="disks are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.localSSD) == has(oldSelf.localSSD) && (!has(self.localSSD) || self.localSSD == oldSelf.localSSD)",message="localSSD is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networkInterfaces) == has(oldSelf.networkInterfaces) && (!has(self.networkInterfaces) || self.networkInterfaces == oldSelf.networkInterfaces)",message="networkInterfaces are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.canIPForward) == has(oldSelf.canIPForward) && (!has(self.canIPForward) || self.canIPForward == oldSelf.canIPForward)",message="canIPForward is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tags) == has(oldSelf.tags) && (!has(self.tags) || self.tags == oldSelf.tags)",message="tags are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccount) == has(oldSelf.serviceAccount) && (!has(self.serviceAccount) || self.serviceAccount == oldSelf.serviceAccount)",message="serviceAccount is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",message="labels are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.metadata) == has(oldSelf.metadata) && (!has(self.metadata) || self.metadata == oldSelf.metadata)",message="metadata is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.automaticRestart) == has(oldSelf.automaticRestart) && (!has(self.automaticRestart) || self.automaticRestart == oldSelf.automaticRestart)",message="automaticRestart is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.onHostMaintenance) == has(oldSelf.onHostMaintenance) && (!has(self.onHostMaintenance) || self.onHostMaintenance == oldSelf.onHostMaintenance)",message="onHostMaintenance is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.minCPUPlatform) == has(oldSelf.minCPUPlatform) && (!has(self.minCPUPlatform) || self.minCPUPlatform == oldSelf.minCPUPlatform)",message="minCPUPlatform is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.guestAccelerators) == has(oldSelf.guestAccelerators) && (!has(self.guestAccelerators) || self.guestAccelerators == oldSelf.guestAccelerators)",message="guestAccelerators are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.shieldedInstance) == has(oldSelf.shieldedInstance) && (!has(self.shieldedInstance) || self.shieldedInstance == oldSelf.shieldedInstance)",message="shieldedInstance is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.confidentialInstanceType) == has(oldSelf.confidentialInstanceType) && (!has(self.confidentialInstanceType) || self.confidentialInstanceType == oldSelf.confidentialInstanceType)",message="confidentialInstanceType is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.advancedMachineFeatures) == has(oldSelf.advancedMachineFeatures) && (!has(self.advancedMachineFeatures) || self.advancedMachineFeatures == oldSelf.advancedMachineFeatures)",message="advancedMachineFeatures are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.reservationAffinity) == has(oldSelf.reservationAffinity) && (!has(self.reservationAffinity) || self.reservationAffinity == oldSelf.reservationAffinity)",message="reservationAffinity is immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.resourcePolicies) == has(oldSelf.resourcePolicies) && (!has(self.resourcePolicies) || self.resourcePolicies == oldSelf.resourcePolicies)",message="resourcePolicies are immutable: roll out a new GoogleMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new GoogleMachineTemplate instead"
type GoogleMachineSpec struct {
	// providerID is the identifier that the Node has, too, gce://<project>/<zone>/<instance>. It is set by the provider; set it
	// yourself only to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace with the key serviceaccount.json, the JSON key of a service account.
	// Without it the provider uses its own identity: its environment, its workload identity or the service account of the
	// instance that it runs on. Immutable, but the Secret's content may be rotated at any time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// project is the ID of the project of the instance; its number is not accepted. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9][-a-z0-9.]*:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="project is immutable: roll out a new GoogleMachineTemplate instead"
	Project string `json:"project,omitempty"`

	// zone is the zone of the instance, such as europe-west3-a, unless the Machine names a failure domain, which wins.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?-[a-z]$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zone is immutable: roll out a new GoogleMachineTemplate instead"
	Zone string `json:"zone,omitempty"`

	// machineType is the machine type, such as n4-standard-2, or a custom one, such as n2-custom-4-8192. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="machineType is immutable: roll out a new GoogleMachineTemplate instead"
	MachineType string `json:"machineType,omitempty"`

	// image is the image to boot. It must have cloud-init or Ignition. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="image is immutable: roll out a new GoogleMachineTemplate instead"
	Image GoogleImage `json:"image,omitempty,omitzero"`

	// bootDisk changes the boot disk. Immutable.
	// +optional
	BootDisk GoogleBootDisk `json:"bootDisk,omitempty,omitzero"`

	// disks are further disks. They are created and deleted with the instance. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Disks []GoogleDisk `json:"disks,omitempty"`

	// localSSD adds local SSDs. Immutable.
	// +optional
	LocalSSD GoogleLocalSSD `json:"localSSD,omitempty,omitzero"`

	// networkInterfaces are the network interfaces, the primary one first. Without any, there is one in the network default,
	// without an external address. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	NetworkInterfaces []GoogleNetworkInterface `json:"networkInterfaces,omitempty"`

	// canIPForward permits packets with other addresses than the instance's own, as pod networks with routes need. Default
	// false. Immutable.
	// +optional
	CanIPForward *bool `json:"canIPForward,omitempty"`

	// tags are network tags, to which firewall rules and routes refer. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Tags []string `json:"tags,omitempty"`

	// serviceAccount is the service account of the instance. Without it the instance has none. Immutable.
	// +optional
	ServiceAccount GoogleServiceAccount `json:"serviceAccount,omitempty,omitzero"`

	// labels are put on the instance and its disks, beside the provider's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-z][a-z0-9_-]{0,62}$') && !key.startsWith('drover-') && !key.startsWith('goog'))",message="keys have up to 63 lower-case letters, digits, - and _, and begin with a letter and not with drover- or goog"
	Labels map[string]GoogleLabelValue `json:"labels,omitempty"`

	// metadata are further metadata items of the instance, such as enable-oslogin. The keys user-data and user-data-encoding have
	// the bootstrap data. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-zA-Z0-9_-]{1,128}$') && !(key in ['user-data', 'user-data-encoding']))",message="keys have up to 128 letters, digits, - and _; user-data and user-data-encoding have the bootstrap data"
	Metadata map[string]GoogleMetadataValue `json:"metadata,omitempty"`

	// provisioningModel is STANDARD, or SPOT for an instance that Compute Engine may preempt at any time. A preempted instance is
	// stopped and never started again. Default STANDARD. Immutable.
	// +optional
	// +default="STANDARD"
	// +kubebuilder:validation:Enum=STANDARD;SPOT
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="provisioningModel is immutable: roll out a new GoogleMachineTemplate instead"
	ProvisioningModel string `json:"provisioningModel,omitempty"`

	// automaticRestart has Compute Engine start the instance again after a failure of its host. Default true, and false for a
	// Spot VM. Immutable.
	// +optional
	AutomaticRestart *bool `json:"automaticRestart,omitempty"`

	// onHostMaintenance is MIGRATE or TERMINATE: what happens to the instance during maintenance of its host. Default TERMINATE
	// for a Spot VM and with guestAccelerators, otherwise that of Compute Engine. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=MIGRATE;TERMINATE
	OnHostMaintenance string `json:"onHostMaintenance,omitempty"`

	// minCPUPlatform is the oldest CPU platform, such as Intel Ice Lake. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	MinCPUPlatform string `json:"minCPUPlatform,omitempty"`

	// guestAccelerators are GPUs to attach. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	GuestAccelerators []GoogleAccelerator `json:"guestAccelerators,omitempty"`

	// shieldedInstance are the settings of a Shielded VM. Immutable.
	// +optional
	ShieldedInstance GoogleShieldedInstance `json:"shieldedInstance,omitempty,omitzero"`

	// confidentialInstanceType is SEV, SEV_SNP or TDX for a Confidential VM. Immutable.
	// +optional
	// +kubebuilder:validation:Enum=SEV;SEV_SNP;TDX
	ConfidentialInstanceType string `json:"confidentialInstanceType,omitempty"`

	// advancedMachineFeatures are features of the CPU. Immutable.
	// +optional
	AdvancedMachineFeatures GoogleAdvancedMachineFeatures `json:"advancedMachineFeatures,omitempty,omitzero"`

	// reservationAffinity is which reservation of capacity the instance may use. Immutable.
	// +optional
	ReservationAffinity GoogleReservationAffinity `json:"reservationAffinity,omitempty,omitzero"`

	// resourcePolicies are the names of placement policies in the region of the instance. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	ResourcePolicies []string `json:"resourcePolicies,omitempty"`

	// fallbacks are the alternatives, in order, if Compute Engine has no capacity or the project no quota for the spec. Those
	// with another zone than the Machine's failure domain are left out. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []GoogleFallback `json:"fallbacks,omitempty"`
}

// GoogleMachine is an instance of Compute Engine.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=googlemachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this GoogleMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="MachineType",type="string",JSONPath=".spec.machineType",priority=10,description="Requested machine type"
type GoogleMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec GoogleMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *GoogleMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *GoogleMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *GoogleMachine) GetStatus() *MachineStatus { return &m.Status }

// GoogleMachineList is a list of GoogleMachines.
// +kubebuilder:object:root=true
type GoogleMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the GoogleMachines.
	Items []GoogleMachine `json:"items"`
}
