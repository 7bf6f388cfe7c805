// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// OpenStackImage names one image: by ID, or as the newest of those that fit a name, tags and properties.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.id) || (!has(self.name) && !has(self.tags) && !has(self.properties))",message="give either the id or what the image is found by"
type OpenStackImage struct {
	// id is the ID of the image.
	// +optional
	// +kubebuilder:validation:Format=uuid
	ID string `json:"id,omitempty"`

	// name is the exact name of the image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// tags are tags that the image has, all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Tags []string `json:"tags,omitempty"`

	// properties are properties that the image has, all of them, such as os_distro.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 255 && size(self[key]) <= 255)",message="keys and values have at most 255 characters"
	Properties map[string]string `json:"properties,omitempty"`
}

// OpenStackPort is one network interface.
// +kubebuilder:validation:XValidation:rule="!has(self.disablePortSecurity) || !self.disablePortSecurity || (!has(self.securityGroups) && !has(self.allowedAddressPairs))",message="a port without port security has no securityGroups and no allowedAddressPairs"
type OpenStackPort struct {
	// network is the ID or name of the network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Network string `json:"network,omitempty"`

	// fixedIPs choose the subnets to have addresses from, such as one of IPv4 and one of IPv6. Without any
	// the cloud gives one address of each kind that the network has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	FixedIPs []OpenStackFixedIP `json:"fixedIPs,omitempty"`

	// securityGroups are the IDs or names of the security groups of this port, instead of the machine's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	SecurityGroups []string `json:"securityGroups,omitempty"`

	// disablePortSecurity turns security groups and anti-spoofing off. The network
	// must be the project's own. Default false.
	// +optional
	DisablePortSecurity *bool `json:"disablePortSecurity,omitempty"`

	// allowedAddressPairs are addresses besides its own that the port may use, such as those of pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AllowedAddressPairs []OpenStackAddressPair `json:"allowedAddressPairs,omitempty"`

	// vnicType is the kind of virtual interface. Default is the cloud's, normal.
	// +optional
	// +kubebuilder:validation:Enum=normal;direct;direct-physical;macvtap;baremetal;virtio-forwarder;smart-nic;remote-managed
	VNICType string `json:"vnicType,omitempty"`
}

// OpenStackFixedIP is a requested address.
type OpenStackFixedIP struct {
	// subnet is the ID or name of a subnet of the port's network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Subnet string `json:"subnet,omitempty"`

	// address is the very address. It makes sense for a single machine only, not in a template for several.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address,omitempty"`
}

// OpenStackAddressPair is an address that a port may use.
type OpenStackAddressPair struct {
	// address is an address or a range in CIDR notation.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`

	// macAddress is the hardware address. Default is the port's own.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	// +kubebuilder:validation:MaxLength=17
	MACAddress string `json:"macAddress,omitempty"`
}

// OpenStackFloatingIP is a requested floating IP.
type OpenStackFloatingIP struct {
	// network is the ID or name of the external network that the address comes from.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Network string `json:"network,omitempty"`

	// subnet is the ID or name of a subnet of that network. Default any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Subnet string `json:"subnet,omitempty"`
}

// OpenStackServerGroup is an existing server group, or a policy for one that the provider manages.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.group) != has(self.policy)",message="give either the group or a policy"
type OpenStackServerGroup struct {
	// group is the ID or name of a group that exists.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Group string `json:"group,omitempty"`

	// policy requests a group of all machines of this Cluster with this policy. The provider creates the
	// group with the first machine and removes it with the last.
	// +optional
	// +kubebuilder:validation:Enum=affinity;anti-affinity;soft-affinity;soft-anti-affinity
	Policy string `json:"policy,omitempty"`
}

// OpenStackVolume is a volume made for one server.
// +kubebuilder:validation:XValidation:rule="!has(self.availabilityZone) || !has(self.inMachineZone) || !self.inMachineZone",message="give either the availabilityZone or inMachineZone"
type OpenStackVolume struct {
	// sizeGiB is the size in GiB.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB int32 `json:"sizeGiB,omitempty"`

	// type is the volume type. Default is the cloud's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Type string `json:"type,omitempty"`

	// availabilityZone is the zone of the volume. Default is the cloud's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	AvailabilityZone string `json:"availabilityZone,omitempty"`

	// inMachineZone creates the volume in the zone of the server's request, for clouds that attach
	// volumes within a zone only. Default false.
	// +optional
	InMachineZone *bool `json:"inMachineZone,omitempty"`

	// deleteOnTermination deletes the volume with the server. A volume that is kept has no owner: delete it yourself.
	// Default true.
	// +optional
	// +default=true
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
}

// OpenStackDataVolume is a volume besides the root.
type OpenStackDataVolume struct {
	// name distinguishes the volumes of a machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	OpenStackVolume `json:",inline"`
}

// OpenStackFallback is an alternative.
// +kubebuilder:validation:MinProperties=1
type OpenStackFallback struct {
	// flavor replaces the machine's flavor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Flavor string `json:"flavor,omitempty"`

	// availabilityZone replaces the machine's zone. A zone that the Machine was given as its failure domain
	// is kept.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	AvailabilityZone string `json:"availabilityZone,omitempty"`
}
