// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HetznerMachineSpec is what a server in Hetzner Cloud should be. It is immutable: to change it, create a template of another
// name and refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may change, so that a
// machine stays deletable when its Secret was renamed.
//
// Whatever the project has beside servers is named by its name or its ID.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialsSecretName) || has(self.credentialsSecretName)",message="credentialsSecretName may name another Secret and must not be removed: the provider's own credentials are for machines that were made with them"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.imageSelector)",message="set exactly one of image and imageSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.placementGroup) || !has(self.placementGroupSelector)",message="set at most one of placementGroup and placementGroupSelector"
// +kubebuilder:validation:XValidation:rule="has(self.networks) || !has(self.publicIPv4) || !has(self.publicIPv6) || self.publicIPv4.enabled || self.publicIPv6.enabled",message="a server needs publicIPv4, publicIPv6 or networks"
// +kubebuilder:validation:XValidation:rule="has(self.location) == has(oldSelf.location) && (!has(self.location) || self.location == oldSelf.location)",message="location is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image)",message="image is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.imageSelector) == has(oldSelf.imageSelector) && (!has(self.imageSelector) || self.imageSelector == oldSelf.imageSelector)",message="imageSelector is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.sshKeys) == has(oldSelf.sshKeys) && (!has(self.sshKeys) || self.sshKeys == oldSelf.sshKeys)",message="sshKeys are immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networks) == has(oldSelf.networks) && (!has(self.networks) || self.networks == oldSelf.networks)",message="networks are immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.publicIPv4) == has(oldSelf.publicIPv4) && (!has(self.publicIPv4) || self.publicIPv4 == oldSelf.publicIPv4)",message="publicIPv4 is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.publicIPv6) == has(oldSelf.publicIPv6) && (!has(self.publicIPv6) || self.publicIPv6 == oldSelf.publicIPv6)",message="publicIPv6 is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.firewalls) == has(oldSelf.firewalls) && (!has(self.firewalls) || self.firewalls == oldSelf.firewalls)",message="firewalls are immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementGroup) == has(oldSelf.placementGroup) && (!has(self.placementGroup) || self.placementGroup == oldSelf.placementGroup)",message="placementGroup is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.placementGroupSelector) == has(oldSelf.placementGroupSelector) && (!has(self.placementGroupSelector) || self.placementGroupSelector == oldSelf.placementGroupSelector)",message="placementGroupSelector is immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.volumes) == has(oldSelf.volumes) && (!has(self.volumes) || self.volumes == oldSelf.volumes)",message="volumes are immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",message="labels are immutable: roll out a new HetznerMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.fallbacks) == has(oldSelf.fallbacks) && (!has(self.fallbacks) || self.fallbacks == oldSelf.fallbacks)",message="fallbacks are immutable: roll out a new HetznerMachineTemplate instead"
type HetznerMachineSpec struct {
	// providerID is the identifier that the Node has, too, hcloud://<server ID>. It is set by the
	// provider; set it yourself only to adopt a server of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^hcloud://[1-9][0-9]*$`
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace whose key token holds an API token of the
	// project, with read and write permission. Without it the provider's own environment variable
	// HCLOUD_TOKEN counts. May be changed, to another Secret with a token of the same project.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// serverType is the name of the server type, such as cx33 or cax21. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serverType is immutable: roll out a new HetznerMachineTemplate instead"
	ServerType string `json:"serverType,omitempty"`

	// location is the name of the location, such as fsn1, unless the Machine names a failure domain, which
	// wins. Without either the cloud chooses, which it cannot for a machine with volumes. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Location string `json:"location,omitempty"`

	// image is the name of a system image, such as ubuntu-24.04, or the ID of any image. A name is looked
	// up for the architecture of the server type. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Image string `json:"image,omitempty"`

	// imageSelector is a label selector, such as os=flatcar,channel in (stable,lts). The newest available
	// snapshot that it matches, of the architecture of the server type, is taken. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageSelector string `json:"imageSelector,omitempty"`

	// sshKeys may log in as root. Without any the cloud makes a root password for each server and mails it
	// to the owner of the project. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SSHKeys []string `json:"sshKeys,omitempty"`

	// networks are the private networks that the server is in. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Networks []HetznerNetwork `json:"networks,omitempty"`

	// publicIPv4 is the public IPv4 address. By default a new one that goes with the server. Immutable.
	// +optional
	PublicIPv4 HetznerPublicIP `json:"publicIPv4,omitempty,omitzero"`

	// publicIPv6 is the public IPv6 network. By default a new one that goes with the server. Immutable.
	// +optional
	PublicIPv6 HetznerPublicIP `json:"publicIPv6,omitempty,omitzero"`

	// firewalls are applied to the public interface. Immutable.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Firewalls []string `json:"firewalls,omitempty"`

	// placementGroup keeps the servers of a group on different hosts. A group of type spread holds ten
	// servers. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	PlacementGroup string `json:"placementGroup,omitempty"`

	// placementGroupSelector is a label selector. Of the placement groups that it matches, the one with the
	// fewest servers is taken, so that several groups hold more than ten machines. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	PlacementGroupSelector string `json:"placementGroupSelector,omitempty"`

	// volumes are made with the server, attached to it and deleted with it. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Volumes []HetznerVolume `json:"volumes,omitempty"`

	// backups turns daily backups on. They cost a fifth of the server. Default false. Immutable.
	// +optional
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="backups is immutable: roll out a new HetznerMachineTemplate instead"
	Backups *bool `json:"backups,omitempty"`

	// labels are set on the server and its volumes, in addition to Drover's own. Values have at
	// most 63 letters, digits, dashes, underscores and dots. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('drover.io/') && !key.startsWith('hetzner.cloud/'))",message="the prefixes drover.io/ and hetzner.cloud/ are reserved"
	Labels map[string]string `json:"labels,omitempty"`

	// fallbacks are tried in this order where there is no room for serverType in location. Those in another
	// location do not count for a Machine that names a failure domain. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Fallbacks []HetznerFallback `json:"fallbacks,omitempty"`
}

// HetznerNetwork is a private network that a server is in.
type HetznerNetwork struct {
	// name is the name or ID of the network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// subnet is the IP range of the subnet to take an address from, such as 10.0.1.0/24. By default the
	// cloud chooses one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="subnet must be an IP range such as 10.0.1.0/24"
	Subnet string `json:"subnet,omitempty"`

	// ip is the address of the server in the network: for a template of one machine at a time. By default
	// the cloud chooses one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="ip must be an IP address"
	IP string `json:"ip,omitempty"`

	// aliasIPs are further addresses of the server in the network: for a template of one machine at a time.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="aliasIPs must be IP addresses"
	AliasIPs []string `json:"aliasIPs,omitempty"`
}

// HetznerPublicIP is a public address of a server.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.primaryIP) || !has(self.primaryIPSelector)",message="set at most one of primaryIP and primaryIPSelector"
// +kubebuilder:validation:XValidation:rule="self.enabled || (!has(self.primaryIP) && !has(self.primaryIPSelector))",message="primaryIP and primaryIPSelector need enabled"
type HetznerPublicIP struct {
	// enabled gives the server the address. Default true.
	// +optional
	// +default=true
	Enabled *bool `json:"enabled,omitempty"`

	// primaryIP is the name or ID of a Primary IP that exists: for a template of one machine at a time. It
	// stays when the server goes, unless its own auto-delete is on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	PrimaryIP string `json:"primaryIP,omitempty"`

	// primaryIPSelector is a label selector. One of the Primary IPs that it matches and that no server has
	// is taken.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	PrimaryIPSelector string `json:"primaryIPSelector,omitempty"`
}

// HetznerVolume is a disk beside the server's own.
type HetznerVolume struct {
	// name distinguishes the volumes of a machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// sizeGB is the size in GB.
	// +required
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=10240
	SizeGB int32 `json:"sizeGB,omitempty"`

	// format is the file system that the cloud puts on it, ext4 or xfs; none by default. It is never
	// mounted by the cloud: the bootstrap data may.
	// +optional
	// +kubebuilder:validation:Enum=ext4;xfs
	Format string `json:"format,omitempty"`
}

// HetznerFallback is what to try instead.
// +kubebuilder:validation:MinProperties=1
type HetznerFallback struct {
	// serverType replaces serverType; the same by default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServerType string `json:"serverType,omitempty"`

	// location replaces location; the same by default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Location string `json:"location,omitempty"`
}

// HetznerMachine is a server in Hetzner Cloud.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hetznermachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this HetznerMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the server"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Location",type="string",JSONPath=".status.failureDomain",description="Location the server is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".spec.serverType",priority=10,description="Server type"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type HetznerMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec HetznerMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *HetznerMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *HetznerMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *HetznerMachine) GetStatus() *MachineStatus { return &m.Status }

// HetznerMachineList is a list of HetznerMachines.
// +kubebuilder:object:root=true
type HetznerMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the HetznerMachines.
	Items []HetznerMachine `json:"items"`
}
