// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AzureTagValue is the value of a tag.
// +kubebuilder:validation:MaxLength=256
type AzureTagValue string

// AzureImage is the image to boot.
// +kubebuilder:validation:XValidation:rule="[has(self.marketplace), has(self.gallery), has(self.communityGallery), has(self.id)].filter(set, set).size() == 1",message="exactly one of marketplace, gallery, communityGallery and id must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.plan) || !has(self.marketplace)",message="the plan of a marketplace image is found by itself: leave plan out"
type AzureImage struct {
	// marketplace names an image of the Azure Marketplace. Its plan is found by itself; its terms must have been accepted in the
	// subscription.
	// +optional
	Marketplace AzureMarketplaceImage `json:"marketplace,omitempty,omitzero"`

	// gallery names an image of an Azure Compute Gallery.
	// +optional
	Gallery AzureGalleryImage `json:"gallery,omitempty,omitzero"`

	// communityGallery names an image of a community gallery.
	// +optional
	CommunityGallery AzureCommunityGalleryImage `json:"communityGallery,omitempty,omitzero"`

	// id is the resource ID of a managed image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Compute/images/[-\w.]{1,80}$`
	ID string `json:"id,omitempty"`

	// plan is the purchase plan of an image that was made from one of the marketplace.
	// +optional
	Plan AzureImagePlan `json:"plan,omitempty,omitzero"`
}

// AzureMarketplaceImage is an image of the Azure Marketplace.
type AzureMarketplaceImage struct {
	// publisher is the publisher, such as Canonical.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	Publisher string `json:"publisher,omitempty"`

	// offer is the offer, such as ubuntu-24_04-lts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	Offer string `json:"offer,omitempty"`

	// sku is the SKU, such as server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	SKU string `json:"sku,omitempty"`

	// version is the version, such as 24.04.202611100. Default latest, which is the newest one at the creation.
	// +optional
	// +default="latest"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]+(\.[0-9]+)*)$`
	Version string `json:"version,omitempty"`
}

// AzureGalleryImage is an image of an Azure Compute Gallery that the credentials may read.
type AzureGalleryImage struct {
	// subscriptionID is the subscription of the gallery. Default that of the machine.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	SubscriptionID string `json:"subscriptionID,omitempty"`

	// resourceGroup is the resource group of the gallery.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=90
	// +kubebuilder:validation:Pattern=`^[-\w._()]*[-\w_()]$`
	ResourceGroup string `json:"resourceGroup,omitempty"`

	// name is the name of the gallery.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^[\w.]+$`
	Name string `json:"name,omitempty"`

	// image is the name of the image definition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	Image string `json:"image,omitempty"`

	// version is the version, such as 1.2.3. Default latest, which is the newest one that is not excluded from it.
	// +optional
	// +default="latest"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]+\.[0-9]+\.[0-9]+)$`
	Version string `json:"version,omitempty"`
}

// AzureCommunityGalleryImage is an image of a community gallery. Azure resolves its newest version.
type AzureCommunityGalleryImage struct {
	// name is the public name of the gallery, such as flatcar-23485951-527a-48d6-9d11-6931ff0afc2e.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	Name string `json:"name,omitempty"`

	// image is the name of the image definition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^[-\w.]+$`
	Image string `json:"image,omitempty"`

	// version is the version, such as 1.2.3, or latest. Default latest.
	// +optional
	// +default="latest"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]+\.[0-9]+\.[0-9]+)$`
	Version string `json:"version,omitempty"`
}

// AzureImagePlan is a purchase plan of the Azure Marketplace.
type AzureImagePlan struct {
	// publisher is the publisher.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Publisher string `json:"publisher,omitempty"`

	// product is the product, which is the offer of the image.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Product string `json:"product,omitempty"`

	// name is the name of the plan.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
}

// AzureDiskSettings are the settings of a managed disk.
type AzureDiskSettings struct {
	// type is the storage account type. Default that of Azure for the size.
	// +optional
	// +kubebuilder:validation:Enum=Standard_LRS;StandardSSD_LRS;StandardSSD_ZRS;Premium_LRS;Premium_ZRS;PremiumV2_LRS
	Type string `json:"type,omitempty"`

	// caching is None, ReadOnly or ReadWrite. Default that of Azure: ReadWrite for the OS disk and None for data disks, and
	// ReadOnly for an ephemeral OS disk.
	// +optional
	// +kubebuilder:validation:Enum=None;ReadOnly;ReadWrite
	Caching string `json:"caching,omitempty"`

	// diskEncryptionSetID is the resource ID of a disk encryption set with a key of the customer. Without it Azure manages the
	// key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Compute/diskEncryptionSets/[-\w]{1,80}$`
	DiskEncryptionSetID string `json:"diskEncryptionSetID,omitempty"`
}

// AzureEphemeralDisk has the OS disk on the host of the virtual machine: its data ends with the virtual machine and it costs
// nothing.
type AzureEphemeralDisk struct {
	// placement is CacheDisk, ResourceDisk or NvmeDisk: where on the host.
	// +required
	// +kubebuilder:validation:Enum=CacheDisk;ResourceDisk;NvmeDisk
	Placement string `json:"placement,omitempty"`
}

// AzureOSDisk is the OS disk. It is created from the image and deleted with the virtual machine.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.ephemeral) || !has(self.type) && !has(self.diskEncryptionSetID) && (!has(self.caching) || self.caching == 'ReadOnly')",message="an ephemeral OS disk has no type and no diskEncryptionSetID, and the caching ReadOnly"
type AzureOSDisk struct {
	// sizeGB is the size in GiB. Default that of the image.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4095
	SizeGB *int32 `json:"sizeGB,omitempty"`

	AzureDiskSettings `json:",inline"`

	// ephemeral has the OS disk on the host. Default a managed disk.
	// +optional
	Ephemeral AzureEphemeralDisk `json:"ephemeral,omitempty,omitzero"`

	// securityEncryptionType is how the OS disk of a confidential virtual machine is encrypted: VMGuestStateOnly,
	// DiskWithVMGuestState or NonPersistedTPM. Default VMGuestStateOnly.
	// +optional
	// +kubebuilder:validation:Enum=VMGuestStateOnly;DiskWithVMGuestState;NonPersistedTPM
	SecurityEncryptionType string `json:"securityEncryptionType,omitempty"`
}

// AzureDataDisk is a disk beside the OS disk. It is created empty, and deleted with the virtual machine.
type AzureDataDisk struct {
	// name identifies the disk in the list. The guest has it by its LUN, which is its place in the list, as
	// /dev/disk/azure/scsi1/lun0 or /dev/disk/azure/data/by-lun/0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// sizeGB is the size in GiB.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGB int32 `json:"sizeGB,omitempty"`

	AzureDiskSettings `json:",inline"`
}

// AzureNetworkInterface is the network interface. It is created and deleted with the virtual machine.
type AzureNetworkInterface struct {
	// subnetID is the resource ID of the subnet, whose virtual network is in the location of the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Network/virtualNetworks/[-\w.]{1,80}/subnets/[-\w.]{1,80}$`
	SubnetID string `json:"subnetID,omitempty"`

	// acceleratedNetworking has the guest reach the network adapter directly (SR-IOV). The size, and those of the fallbacks, must
	// support it. Default false.
	// +optional
	AcceleratedNetworking *bool `json:"acceleratedNetworking,omitempty"`

	// ipForwarding permits packets with other addresses than the interface's own, as pod networks with routes need. Default
	// false.
	// +optional
	IPForwarding *bool `json:"ipForwarding,omitempty"`

	// publicIP gives the interface a static public address of the SKU Standard, which is created and deleted with the virtual
	// machine. Default false.
	// +optional
	PublicIP *bool `json:"publicIP,omitempty"`

	// securityGroupID is the resource ID of a network security group for the interface, beside that of the subnet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Network/networkSecurityGroups/[-\w.]{1,80}$`
	SecurityGroupID string `json:"securityGroupID,omitempty"`

	// applicationSecurityGroupIDs are the resource IDs of application security groups, to which security rules refer.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Network/applicationSecurityGroups/[-\w.]{1,80}$`
	ApplicationSecurityGroupIDs []string `json:"applicationSecurityGroupIDs,omitempty"`

	// backendAddressPoolIDs are the resource IDs of backend pools of load balancers, through which the machine may have its
	// outbound traffic.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[-\w._()]{1,90}/providers/Microsoft\.Network/loadBalancers/[-\w.]{1,80}/backendAddressPools/[-\w.]{1,80}$`
	BackendAddressPoolIDs []string `json:"backendAddressPoolIDs,omitempty"`
}

// AzureSpot are the settings of a Spot VM.
// +kubebuilder:validation:MinProperties=1
type AzureSpot struct {
	// maxPrice is the highest price in US dollars an hour, such as 0.05. Default the price of a regular virtual machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[0-9]{1,5}(\.[0-9]{1,5})?$`
	// +kubebuilder:validation:XValidation:rule="double(self) > 0.0",message="maxPrice must be more than 0"
	MaxPrice string `json:"maxPrice,omitempty"`

	// evictionPolicy is Deallocate or Delete: what Azure does with an evicted virtual machine. A deallocated one shows why it
	// stopped, and its disks cost money until it is replaced. Default Deallocate, and Delete with an ephemeral OS disk.
	// +optional
	// +kubebuilder:validation:Enum=Deallocate;Delete
	EvictionPolicy string `json:"evictionPolicy,omitempty"`
}

// AzureSecurity are security settings of a virtual machine.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type in ['TrustedLaunch', 'ConfidentialVM'] || !has(self.secureBoot) && !has(self.vTPM)",message="secureBoot and vTPM need the type TrustedLaunch or ConfidentialVM"
type AzureSecurity struct {
	// type is TrustedLaunch, ConfidentialVM or Standard. Default that of Azure for size and image.
	// +optional
	// +kubebuilder:validation:Enum=TrustedLaunch;ConfidentialVM;Standard
	Type string `json:"type,omitempty"`

	// secureBoot boots only signed software. Default that of Azure for the type.
	// +optional
	SecureBoot *bool `json:"secureBoot,omitempty"`

	// vTPM gives the virtual machine a virtual TPM. Default true for the types that have one.
	// +optional
	VTPM *bool `json:"vTPM,omitempty"`

	// encryptionAtHost encrypts caches and temporary disks on the host too. The feature must be registered in the subscription.
	// Default false.
	// +optional
	EncryptionAtHost *bool `json:"encryptionAtHost,omitempty"`
}

// AzureFallback is an alternative; fields that are not set have the values of the spec.
// +kubebuilder:validation:MinProperties=1
type AzureFallback struct {
	// vmSize is another size. Image, disks and acceleratedNetworking must fit it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][-A-Za-z0-9_]*$`
	VMSize string `json:"vmSize,omitempty"`

	// zone is another availability zone of the location.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]?$`
	Zone string `json:"zone,omitempty"`

	// priority is Regular or Spot.
	// +optional
	// +kubebuilder:validation:Enum=Regular;Spot
	Priority string `json:"priority,omitempty"`
}
