// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AlibabaImage names an image by its ID, or the newest one of a family or of a name.
// +kubebuilder:validation:XValidation:rule="[has(self.id), has(self.family), has(self.name)].filter(set, set).size() == 1",message="exactly one of id, family and name must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !has(self.owner)",message="owner is whose images have the family or the name: leave it out with id"
// +kubebuilder:validation:XValidation:rule="has(self.ownerID) == (has(self.owner) && self.owner == 'others')",message="ownerID is the account of an image of others: with owner others it must be set, otherwise not"
type AlibabaImage struct {
	// id is the image's ID, such as ubuntu_24_04_x64_20G_alibase_20241016.vhd or m-bp1g7004ksh0oeuc1234.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`

	// family is the image family, such as acs:ubuntu_24_04_x64 of Alibaba Cloud, or one of your own. Its newest available
	// image of the owner is used.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	Family string `json:"family,omitempty"`

	// name is the image's name, in which * stands for any text. The newest available image of the owner is used.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// owner is whose images have the family or the name: system for those of Alibaba Cloud, self, marketplace, or others for
	// images that another account shares. Default system for a name and for a family that begins with acs:, and self for any
	// other family.
	// +optional
	// +kubebuilder:validation:Enum=system;self;marketplace;others
	Owner string `json:"owner,omitempty"`

	// ownerID is the number of the account that shares the image.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OwnerID *int64 `json:"ownerID,omitempty"`
}

// AlibabaVSwitch is the vSwitch of instances in a zone.
type AlibabaVSwitch struct {
	// zoneID is the zone that the vSwitch is in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ZoneID string `json:"zoneID,omitempty"`

	// vSwitchID is the vSwitch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	VSwitchID string `json:"vSwitchID,omitempty"`
}

// AlibabaDisk is a cloud disk.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.performanceLevel) || has(self.category) && self.category == 'cloud_essd'",message="performanceLevel needs category cloud_essd"
// +kubebuilder:validation:XValidation:rule="!has(self.provisionedIOPS) && !has(self.burstingEnabled) || has(self.category) && self.category == 'cloud_auto'",message="provisionedIOPS and burstingEnabled need category cloud_auto"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || !has(self.encrypted) || self.encrypted",message="kmsKeyID encrypts: leave encrypted out or true"
type AlibabaDisk struct {
	// sizeGiB is the size. Default for the system disk 40 or the size of the image, whichever is larger, and for a disk of a
	// snapshot the size of that.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB *int32 `json:"sizeGiB,omitempty"`

	// category is cloud_auto (ESSD AutoPL), cloud_essd, cloud_essd_entry, cloud_ssd, cloud_efficiency or cloud. Default the one
	// that ECS chooses for the instance type.
	// +optional
	// +kubebuilder:validation:Enum=cloud_auto;cloud_essd;cloud_essd_entry;cloud_ssd;cloud_efficiency;cloud
	Category string `json:"category,omitempty"`

	// performanceLevel is PL0, PL1, PL2 or PL3, for category cloud_essd. Default PL1.
	// +optional
	// +kubebuilder:validation:Enum=PL0;PL1;PL2;PL3
	PerformanceLevel string `json:"performanceLevel,omitempty"`

	// provisionedIOPS is the number of operations per second beyond the baseline, for category cloud_auto.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ProvisionedIOPS *int64 `json:"provisionedIOPS,omitempty"`

	// burstingEnabled permits more operations at times, for category cloud_auto.
	// +optional
	BurstingEnabled *bool `json:"burstingEnabled,omitempty"`

	// encrypted requests encryption. Default the account's setting.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// kmsKeyID is the key of Key Management Service to encrypt with. Default the service key of ECS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// autoSnapshotPolicyID is the policy by which snapshots are made of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	AutoSnapshotPolicyID string `json:"autoSnapshotPolicyID,omitempty"`
}

// AlibabaDataDisk is a cloud disk beside the system disk.
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB) || has(self.snapshotID)",message="one of sizeGiB and snapshotID must be set"
type AlibabaDataDisk struct {
	// name ends the name of the disk in the console, which begins with drover- and with what derives from the UID of the machine. What
	// exceeds 128 characters there is left out.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z][-A-Za-z0-9_.:]*$`
	Name string `json:"name,omitempty"`

	// snapshotID is the snapshot to begin with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SnapshotID string `json:"snapshotID,omitempty"`

	AlibabaDisk `json:",inline"`
}

// AlibabaSpot is a spot instance.
type AlibabaSpot struct {
	// priceLimit is the most to pay, per hour in the currency of the account, with three decimal places at most. Without it, the
	// market price, up to that of pay-as-you-go.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]{1,3})?$`
	PriceLimit string `json:"priceLimit,omitempty"`

	// durationHours is for how many hours ECS does not reclaim the instance: 1 or 0. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	DurationHours *int32 `json:"durationHours,omitempty"`
}

// AlibabaMetadata is how the metadata service of the instance answers.
// +kubebuilder:validation:MinProperties=1
type AlibabaMetadata struct {
	// httpTokens is required, so that only requests with a token are answered, or optional. Default optional, because the
	// cloud-init of the image has to know tokens.
	// +optional
	// +kubebuilder:validation:Enum=required;optional
	HTTPTokens string `json:"httpTokens,omitempty"`

	// httpEndpoint is enabled or disabled. The bootstrap data is read from it, so disable it only if the image gets along
	// without. Default enabled.
	// +optional
	// +kubebuilder:validation:Enum=enabled;disabled
	HTTPEndpoint string `json:"httpEndpoint,omitempty"`
}

// AlibabaPrivatePool is which private pool of an elasticity assurance or a capacity reservation the instance may use.
// +kubebuilder:validation:XValidation:rule="has(self.id) == (self.matchCriteria == 'Target')",message="matchCriteria Target needs id, and only that has one"
type AlibabaPrivatePool struct {
	// matchCriteria is Open (a pool that matches, or else the public pool), Target (the pool id) or None (the public pool).
	// +required
	// +kubebuilder:validation:Enum=Open;Target;None
	MatchCriteria string `json:"matchCriteria,omitempty"`

	// id is the private pool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
}

// AlibabaCPU changes the number of cores and threads.
// +kubebuilder:validation:MinProperties=1
type AlibabaCPU struct {
	// cores is the number of CPU cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Cores *int32 `json:"cores,omitempty"`

	// threadsPerCore is 1 to switch hyper-threading off, or 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	ThreadsPerCore *int32 `json:"threadsPerCore,omitempty"`
}

// AlibabaFallback is an alternative; fields that are not set have the values of the spec.
// +kubebuilder:validation:MinProperties=1
type AlibabaFallback struct {
	// instanceType is another instance type. The image must fit it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^ecs\.[a-z0-9][-a-z0-9.]*$`
	InstanceType string `json:"instanceType,omitempty"`

	// zoneID is another zone, for which there must be a vSwitch.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ZoneID string `json:"zoneID,omitempty"`

	// market is Spot or PayAsYouGo.
	// +optional
	// +kubebuilder:validation:Enum=Spot;PayAsYouGo
	Market string `json:"market,omitempty"`
}
