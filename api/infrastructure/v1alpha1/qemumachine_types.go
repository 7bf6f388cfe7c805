// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QEMUMachineSpec is what a virtual machine on the provider's host should be. It is immutable: to change it, create a template
// of another name and refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="self.image == oldSelf.image && self.cpus == oldSelf.cpus && self.memory == oldSelf.memory && self.architecture == oldSelf.architecture && self.acceleration == oldSelf.acceleration && self.shutdownGracePeriodSeconds == oldSelf.shutdownGracePeriodSeconds",message="image, cpus, memory, architecture, acceleration and shutdownGracePeriodSeconds are immutable: roll out a new QEMUMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.diskSize) == has(oldSelf.diskSize) && (!has(self.diskSize) || self.diskSize == oldSelf.diskSize)",message="diskSize is immutable: roll out a new QEMUMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.disks) == has(oldSelf.disks) && (!has(self.disks) || self.disks == oldSelf.disks)",message="disks are immutable: roll out a new QEMUMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.kernel) == has(oldSelf.kernel) && (!has(self.kernel) || self.kernel == oldSelf.kernel)",message="kernel is immutable: roll out a new QEMUMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.firmware) == has(oldSelf.firmware) && (!has(self.firmware) || self.firmware == oldSelf.firmware)",message="firmware is immutable: roll out a new QEMUMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network)",message="network is immutable: roll out a new QEMUMachineTemplate instead"
type QEMUMachineSpec struct {
	// providerID is the identifier that the Node has, too, qemu:///<host>/<instance>. It is set by the
	// provider; set it yourself only to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// architecture is the CPU architecture, amd64 or arm64. One that is not the host's own is emulated. Default
	// amd64. Immutable.
	// +optional
	// +default="amd64"
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`

	// acceleration configures the CPU: KVM uses the host's, TCG emulates one, which works everywhere and
	// is some ten times slower, Auto takes KVM where the host has it. Default Auto. Immutable.
	// +optional
	// +default="Auto"
	// +kubebuilder:validation:Enum=Auto;KVM;TCG
	Acceleration QEMUAcceleration `json:"acceleration,omitempty"`

	// cpus is the number of virtual CPUs. Default 2. Immutable.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	CPUs *int32 `json:"cpus,omitempty"`

	// memory is the memory of the machine, a multiple of 1Mi. Default 2Gi. Immutable.
	// +optional
	// +default="2Gi"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,18}([.][0-9]{1,9})?([KMGTPE]i|[kMGTPE])?$') && quantity(self).compareTo(quantity('64Mi')) >= 0",message="must be 64Mi at least, a number with a suffix such as Mi or Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// image is the disk that the machine boots from. It is never written to: each machine has an overlay of
	// its own. Immutable.
	// +required
	Image QEMUImage `json:"image,omitempty,omitzero"`

	// diskSize is the size of the machine's first disk. Default: the size of the image, and never less. Immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,18}([.][0-9]{1,9})?([KMGTPE]i|[kMGTPE])?$') && quantity(self).isGreaterThan(quantity('0'))",message="must be more than 0, a number with a suffix such as Mi or Gi"
	DiskSize *resource.Quantity `json:"diskSize,omitempty"`

	// disks are further, empty disks, which the guest has in this order after the first. They are deleted
	// with the machine. Default: none. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Disks []QEMUDisk `json:"disks,omitempty"`

	// kernel boots a kernel from outside the image, for images without a boot loader. Immutable.
	// +optional
	Kernel QEMUKernel `json:"kernel,omitempty,omitzero"`

	// firmware is the firmware, such as an UEFI build, to use instead of QEMU's own. An arm64 machine needs one
	// unless kernel is set. Immutable.
	// +optional
	Firmware QEMUFile `json:"firmware,omitempty,omitzero"`

	// network is how the machine is connected. Default: user networking, in which it reaches whatever the
	// host does, and the host itself at 10.0.2.2, and cannot be reached. Immutable.
	// +optional
	Network QEMUNetwork `json:"network,omitempty,omitzero"`

	// shutdownGracePeriodSeconds is how long the guest may take to power off when the machine is deleted, before
	// its power is cut. 0 cuts it at once. Default 60. Immutable.
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	ShutdownGracePeriodSeconds *int32 `json:"shutdownGracePeriodSeconds,omitempty"`
}

// QEMUAcceleration is the accelerator of a machine's CPU.
type QEMUAcceleration string

const (
	// QEMUAccelerationAuto takes KVM where the host has it.
	QEMUAccelerationAuto QEMUAcceleration = "Auto"
	// QEMUAccelerationKVM uses the host's CPU.
	QEMUAccelerationKVM QEMUAcceleration = "KVM"
	// QEMUAccelerationTCG emulates a CPU.
	QEMUAccelerationTCG QEMUAcceleration = "TCG"
)

// QEMUFile is a file that the host has, or that it downloads once and keeps.
// +kubebuilder:validation:XValidation:rule="has(self.path) != has(self.url)",message="exactly one of path and url must be set"
// +kubebuilder:validation:XValidation:rule="has(self.url) == has(self.sha256)",message="url needs sha256, and path has none"
type QEMUFile struct {
	// path is the file's path inside the folder of images that the provider was given (--image-dir).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`
	Path string `json:"path,omitempty"`

	// url is where the file is downloaded from.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[^\s"'\\]+$`
	URL string `json:"url,omitempty"`

	// sha256 is the SHA-256 checksum of what url has, in lower-case hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// QEMUImage is a disk image.
type QEMUImage struct {
	QEMUFile `json:",inline"`

	// format is the format of the image, qcow2 or raw. It is never guessed, as a guest could change the guess.
	// Default qcow2.
	// +optional
	// +default="qcow2"
	// +kubebuilder:validation:Enum=qcow2;raw
	Format string `json:"format,omitempty"`
}

// QEMUDisk is an empty disk.
type QEMUDisk struct {
	// size is the size of the disk.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,18}([.][0-9]{1,9})?([KMGTPE]i|[kMGTPE])?$') && quantity(self).isGreaterThan(quantity('0'))",message="must be more than 0, a number with a suffix such as Mi or Gi"
	Size resource.Quantity `json:"size,omitempty,omitzero"`
}

// QEMUKernel is a kernel to boot.
type QEMUKernel struct {
	// image is the kernel.
	// +required
	Image QEMUFile `json:"image,omitempty,omitzero"`

	// initrd is the initial RAM disk. Default: none.
	// +optional
	Initrd QEMUFile `json:"initrd,omitempty,omitzero"`

	// commandLine is the kernel's command line, such as root=/dev/vda console=ttyS0. Default: empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^[^\n\r]+$`
	CommandLine string `json:"commandLine,omitempty"`
}

// QEMUNetwork is how a machine is connected.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!(has(self.bridge) && has(self.forwards))",message="forwards are for user networking: on a bridge the machine is reached directly"
type QEMUNetwork struct {
	// bridge is a bridge of the host that the machine is attached to. Addresses there are the business of
	// the DHCP server. Default: none, user networking.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	Bridge string `json:"bridge,omitempty"`

	// forwards are ports of the host that lead to ports of the machine. Two machines cannot have the same port:
	// this is for a machine alone. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Forwards []QEMUForward `json:"forwards,omitempty"`
}

// QEMUForward is a port of the host that leads to a port of a machine.
type QEMUForward struct {
	// protocol is TCP or UDP. Default TCP.
	// +optional
	// +default="TCP"
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol string `json:"protocol,omitempty"`

	// hostAddress is the address of the host to listen on. Default 127.0.0.1.
	// +optional
	// +default="127.0.0.1"
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address"
	HostAddress string `json:"hostAddress,omitempty"`

	// hostPort is the port of the host.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HostPort int32 `json:"hostPort,omitempty"`

	// port is the port of the machine.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// QEMUMachine is a virtual machine on the host that the provider runs on.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=qemumachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this QEMUMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".status.failureDomain",description="Host that runs the instance"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
type QEMUMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec QEMUMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *QEMUMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *QEMUMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *QEMUMachine) GetStatus() *MachineStatus { return &m.Status }

// QEMUMachineList is a list of QEMUMachines.
// +kubebuilder:object:root=true
type QEMUMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the QEMUMachines.
	Items []QEMUMachine `json:"items"`
}
