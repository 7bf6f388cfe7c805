// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AWSFilter is one filter of EC2's Describe calls, such as tag:role or vpc-id. Every filter must match.
type AWSFilter struct {
	// name is the filter's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// values are the values of which one must match. They may have the wildcards * and ?.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Values []string `json:"values,omitempty"`
}

// AWSSelector names a thing by its ID or by filters.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.filters)",message="exactly one of id and filters must be set"
type AWSSelector struct {
	// id is the thing's ID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`

	// filters select things.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Filters []AWSFilter `json:"filters,omitempty"`
}

// AWSImage names an AMI by its ID, or the newest one that matches.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.name)",message="exactly one of id and name must be set"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(self.owners)",message="name and owners must be set together, so that an image of that name by another owner is not used"
// +kubebuilder:validation:XValidation:rule="has(self.name) || !has(self.architecture)",message="architecture needs name"
type AWSImage struct {
	// id is the AMI's ID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^ami-`
	ID string `json:"id,omitempty"`

	// name is the AMI's name, with the wildcards * and ?. The newest available AMI wins.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// owners are the accounts of which one must own the AMI: account IDs, self, amazon or aws-marketplace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Owners []string `json:"owners,omitempty"`

	// architecture is what the AMI must be built for.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
}

// AWSLaunchTemplate names a launch template by its ID or name.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.name)",message="exactly one of id and name must be set"
type AWSLaunchTemplate struct {
	// id is the launch template's ID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^lt-`
	ID string `json:"id,omitempty"`

	// name is the launch template's name.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// version is a number, $Latest or $Default. Default $Default.
	// +optional
	// +default="$Default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+|\$Latest|\$Default)$`
	Version string `json:"version,omitempty"`
}

// AWSNetworkInterface is one network interface.
type AWSNetworkInterface struct {
	// subnet is where the interface is; it must be in the instance's zone.
	// +required
	Subnet AWSSelector `json:"subnet,omitempty,omitzero"`

	// securityGroups are the security groups of the interface. Without them, those of the primary one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	SecurityGroups []AWSSelector `json:"securityGroups,omitempty"`

	// ipv6AddressCount is how many IPv6 addresses the interface gets.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	IPv6AddressCount *int32 `json:"ipv6AddressCount,omitempty"`

	// networkCardIndex is the network card that the interface is on, for types with several. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31
	NetworkCardIndex *int32 `json:"networkCardIndex,omitempty"`

	// type is interface, or efa for an Elastic Fabric Adapter. Default interface.
	// +optional
	// +default="interface"
	// +kubebuilder:validation:Enum=interface;efa
	Type string `json:"type,omitempty"`
}

// AWSSpot is a spot instance.
type AWSSpot struct {
	// maxPrice is the most to pay, in dollars per hour. Without it, the on-demand price, which AWS recommends.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	MaxPrice string `json:"maxPrice,omitempty"`
}

// AWSFallback is an alternative; fields that are not set have the values of the spec.
// +kubebuilder:validation:MinProperties=1
type AWSFallback struct {
	// instanceType is another instance type. The image must fit it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9]*\.[-a-z0-9]+$`
	InstanceType string `json:"instanceType,omitempty"`

	// zone is another availability zone. A spec with a subnet by ID needs another subnet too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// subnet is another subnet.
	// +optional
	Subnet AWSSelector `json:"subnet,omitempty,omitzero"`

	// market is Spot or OnDemand.
	// +optional
	// +kubebuilder:validation:Enum=Spot;OnDemand
	Market string `json:"market,omitempty"`
}

// AWSVolume is an EBS volume.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || has(self.type) && self.type in ['gp3', 'io1', 'io2']",message="iops needs type gp3, io1 or io2"
// +kubebuilder:validation:XValidation:rule="has(self.iops) || !has(self.type) || !(self.type in ['io1', 'io2'])",message="types io1 and io2 need iops"
// +kubebuilder:validation:XValidation:rule="!has(self.throughputMiBps) || has(self.type) && self.type == 'gp3'",message="throughputMiBps needs type gp3"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || !has(self.encrypted) || self.encrypted",message="kmsKeyID encrypts: leave encrypted out or true"
type AWSVolume struct {
	// sizeGiB is the size. Default the size of the image or snapshot.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB *int32 `json:"sizeGiB,omitempty"`

	// type is gp2, gp3, io1, io2, st1, sc1 or standard. Default the image's, or gp3 for further volumes.
	// +optional
	// +kubebuilder:validation:Enum=gp2;gp3;io1;io2;st1;sc1;standard
	Type string `json:"type,omitempty"`

	// iops is the provisioned number of operations per second.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=256000
	IOPS *int32 `json:"iops,omitempty"`

	// throughputMiBps is the provisioned throughput of a gp3 volume.
	// +optional
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=2000
	ThroughputMiBps *int32 `json:"throughputMiBps,omitempty"`

	// encrypted requests encryption. Default the image's or the account's setting.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// kmsKeyID is the ID, alias or ARN of the KMS key to encrypt with. Default the account's key for EBS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	KMSKeyID string `json:"kmsKeyID,omitempty"`
}

// AWSDataVolume is an EBS volume beside the root volume.
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB) || has(self.snapshotID)",message="one of sizeGiB and snapshotID must be set"
type AWSDataVolume struct {
	// deviceName is the name under which the volume is attached, such as /dev/sdf.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	DeviceName string `json:"deviceName,omitempty"`

	// snapshotID is the snapshot to begin with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SnapshotID string `json:"snapshotID,omitempty"`

	AWSVolume `json:",inline"`
}

// AWSMetadata is how the instance metadata service answers.
type AWSMetadata struct {
	// tokens is required, so that only requests with a session token are answered (IMDSv2), or optional.
	// Default required.
	// +optional
	// +default="required"
	// +kubebuilder:validation:Enum=required;optional
	Tokens string `json:"tokens,omitempty"`

	// hopLimit is how many network hops an answer may travel. Pods without host networking are a second hop,
	// so 1 keeps the instance's credentials from them. Default 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	HopLimit *int32 `json:"hopLimit,omitempty"`

	// endpoint is enabled or disabled. The bootstrap data is read from it, so disable it only if the image
	// gets along without. Default enabled.
	// +optional
	// +default="enabled"
	// +kubebuilder:validation:Enum=enabled;disabled
	Endpoint string `json:"endpoint,omitempty"`

	// ipv6 answers on the IPv6 endpoint too.
	// +optional
	IPv6 *bool `json:"ipv6,omitempty"`
}

// AWSPlacement is which hosts the instance may be on.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || has(self.group)",message="partition needs group"
// +kubebuilder:validation:XValidation:rule="!has(self.hostID) || has(self.tenancy) && self.tenancy == 'host'",message="hostID needs tenancy host"
type AWSPlacement struct {
	// group is the name of a placement group, which must exist: cluster, spread or partition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Group string `json:"group,omitempty"`

	// partition is the partition of the placement group. Default the one that EC2 chooses.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Partition *int32 `json:"partition,omitempty"`

	// tenancy is default, dedicated (no host shared with other accounts) or host (a dedicated host). Default
	// that of the VPC.
	// +optional
	// +kubebuilder:validation:Enum=default;dedicated;host
	Tenancy string `json:"tenancy,omitempty"`

	// hostID is the dedicated host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	HostID string `json:"hostID,omitempty"`
}

// AWSCapacityReservation is which capacity reservation the instance may use.
// +kubebuilder:validation:XValidation:rule="[has(self.id), has(self.resourceGroupARN), has(self.preference)].filter(set, set).size() == 1",message="exactly one of id, resourceGroupARN and preference must be set"
type AWSCapacityReservation struct {
	// id is the capacity reservation to use.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`

	// resourceGroupARN is the resource group whose capacity reservations to use.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ResourceGroupARN string `json:"resourceGroupARN,omitempty"`

	// preference is open (any that matches), none, or capacity-reservations-only.
	// +optional
	// +kubebuilder:validation:Enum=open;none;capacity-reservations-only
	Preference string `json:"preference,omitempty"`
}

// AWSCPU is the number of cores and threads.
// +kubebuilder:validation:MinProperties=1
type AWSCPU struct {
	// cores is the number of CPU cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Cores *int32 `json:"cores,omitempty"`

	// threadsPerCore is 1 to switch simultaneous multithreading off, or 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	ThreadsPerCore *int32 `json:"threadsPerCore,omitempty"`
}
