// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeProfileReference names a NodeProfile in the namespace of the BootstrapConfig.
type NodeProfileReference struct {
	// name is the name of the NodeProfile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// NodeProfileSpec is what the hosts of a fleet have in common.
// +kubebuilder:validation:MinProperties=0
type NodeProfileSpec struct {
	// releases is where the binaries of each version of Kubernetes come from. Default: the servers of their projects.
	// +optional
	Releases Releases `json:"releases,omitempty,omitzero"`

	// defaults are settings of every BootstrapConfig that refers to this profile. Where both have one, that of the
	// BootstrapConfig is used.
	// +optional
	Defaults NodeDefaults `json:"defaults,omitempty,omitzero"`
}

// Component is a program that a host needs to become a Node.
type Component string

const (
	// ComponentKubelet is the kubelet.
	ComponentKubelet Component = "kubelet"

	// ComponentKubeadm is kubeadm, for join.method Kubeadm.
	ComponentKubeadm Component = "kubeadm"

	// ComponentCNIPlugins are the CNI plugins.
	ComponentCNIPlugins Component = "cniPlugins"

	// ComponentCrictl is crictl.
	ComponentCrictl Component = "crictl"

	// ComponentContainerd is containerd.
	ComponentContainerd Component = "containerd"

	// ComponentRunc is runc.
	ComponentRunc Component = "runc"
)

// Releases is where binaries come from, and what they must be.
// +kubebuilder:validation:MinProperties=1
type Releases struct {
	// mirror is a URL to which the addresses of all default servers are appended, such as
	// https://mirror.example.com/releases for a kubelet at
	// https://mirror.example.com/releases/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet. Default: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[A-Za-z0-9._~:/@-]+[A-Za-z0-9]$')",message="must be a URL that begins with https:// or http://, such as https://mirror.example.com/releases, and ends with a letter or digit, without query"
	Mirror string `json:"mirror,omitempty"`

	// architectures are those of the hosts. Default amd64 and arm64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=amd64;arm64
	Architectures []string `json:"architectures,omitempty"`

	// sources replace the default source of a component.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Sources []ReleaseSource `json:"sources,omitempty"`

	// versions replace the default versions of containerd, runc, the CNI plugins, crictl and the sandbox image for a
	// minor version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=kubernetes
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Versions []ReleaseVersions `json:"versions,omitempty"`

	// digests are the SHA-256 checksums of binaries. For the others, the controller reads the checksum file of the
	// release once and keeps what it has found in status.releases.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +listMapKey=version
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Digests []ReleaseDigest `json:"digests,omitempty"`
}

// ReleaseSource is where a component comes from.
// +kubebuilder:validation:XValidation:rule="has(self.fromImage) && self.fromImage ? !has(self.url) && !has(self.checksumURL) : has(self.url) || has(self.checksumURL)",message="set either fromImage, or url and checksumURL"
// +kubebuilder:validation:XValidation:rule="has(self.checksumURL) == has(self.url)",message="set url and checksumURL, or neither"
type ReleaseSource struct {
	// component is the component: kubelet, kubeadm, cniPlugins, crictl, containerd or runc.
	// +required
	// +kubebuilder:validation:Enum=kubelet;kubeadm;cniPlugins;crictl;containerd;runc
	Component Component `json:"component,omitempty"`

	// fromImage means that the image of the machine has the component, so that nothing is downloaded. Default false;
	// true for containerd and runc where operatingSystem is flatcar.
	// +optional
	FromImage *bool `json:"fromImage,omitempty"`

	// url is the address of the file, in which {version} stands for its version as the project writes it in its tags,
	// without a leading v, and {architecture} for amd64 or arm64.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://([A-Za-z0-9._~:/?#@!&()*+,;=%\[\]-]|\{version\}|\{architecture\})+$`
	// +kubebuilder:validation:XValidation:rule="self.contains('{version}')",message="must contain {version}, so that it differs for each version"
	URL string `json:"url,omitempty"`

	// checksumURL is the address of the file with its SHA-256 checksum: the checksum alone, or lines as sha256sum writes
	// them. It has the same placeholders as url. It must be https, because what it returns is trusted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https://([A-Za-z0-9._~:/?#@!&()*+,;=%\[\]-]|\{version\}|\{architecture\})+$`
	// +kubebuilder:validation:XValidation:rule="self.contains('{version}')",message="must contain {version}, so that it differs for each version"
	ChecksumURL string `json:"checksumURL,omitempty"`
}

// ReleaseVersions are the versions of what a minor version of Kubernetes is used with.
// +kubebuilder:validation:MinProperties=2
type ReleaseVersions struct {
	// kubernetes is the minor version of Kubernetes, such as "1.36".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^1\.[0-9]{1,3}$`
	Kubernetes string `json:"kubernetes,omitempty"`

	// containerd is the version of containerd, such as 2.3.7.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`
	Containerd string `json:"containerd,omitempty"`

	// runc is the version of runc, such as 1.5.2.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`
	Runc string `json:"runc,omitempty"`

	// cniPlugins is the version of the CNI plugins, such as 1.9.1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`
	CNIPlugins string `json:"cniPlugins,omitempty"`

	// crictl is the version of crictl, such as 1.35.0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`
	Crictl string `json:"crictl,omitempty"`

	// sandboxImage is the image of the pause container, where the BootstrapConfig names none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`
	SandboxImage string `json:"sandboxImage,omitempty"`
}

// ReleaseDigest is the checksum of a binary.
type ReleaseDigest struct {
	// component is the component: kubelet, kubeadm, cniPlugins, crictl, containerd or runc.
	// +required
	// +kubebuilder:validation:Enum=kubelet;kubeadm;cniPlugins;crictl;containerd;runc
	Component Component `json:"component,omitempty"`

	// version is the version of the component, without a leading v, such as 1.36.3 for the kubelet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`
	Version string `json:"version,omitempty"`

	// architecture is amd64 or arm64.
	// +required
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`

	// sha256 is the SHA-256 checksum of the file, in lower-case hexadecimal digits.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// NodeDefaults are settings of a BootstrapConfig, with the meaning that they have there.
// +kubebuilder:validation:MinProperties=1
type NodeDefaults struct {
	// kubelet is used field by field: where the BootstrapConfig has the same field, its own is used. Of nodeLabels,
	// extraArgs and credentialProviders each entry is used that the BootstrapConfig does not have by the same key; its
	// configuration is merged over this one.
	// +optional
	Kubelet Kubelet `json:"kubelet,omitempty,omitzero"`

	// containerd is used field by field, and mirrors by registry.
	// +optional
	Containerd Containerd `json:"containerd,omitempty,omitzero"`

	// packages are installed besides those of the BootstrapConfig. Flatcar ignores them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9.+:~=_-]*$`
	Packages []string `json:"packages,omitempty"`

	// packageUpgrade is Never or OnFirstBoot. Flatcar ignores it.
	// +optional
	// +kubebuilder:validation:Enum=Never;OnFirstBoot
	PackageUpgrade PackageUpgrade `json:"packageUpgrade,omitempty"`

	// flatcar is for operatingSystem flatcar; the others ignore it.
	// +optional
	Flatcar FlatcarOptions `json:"flatcar,omitempty,omitzero"`

	// rhel is for operatingSystem rhel; the others ignore it.
	// +optional
	RHEL RHELOptions `json:"rhel,omitempty,omitzero"`

	// hostname is Infrastructure or Machine.
	// +optional
	// +kubebuilder:validation:Enum=Infrastructure;Machine
	Hostname HostnameSource `json:"hostname,omitempty"`

	// files are written besides those of the BootstrapConfig; of two with the same path, its own.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Files []File `json:"files,omitempty"`

	// users are made besides those of the BootstrapConfig; of two with the same name, its own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Users []User `json:"users,omitempty"`

	// ntp chooses the time servers.
	// +optional
	NTP NTP `json:"ntp,omitempty,omitzero"`

	// trustedCAs are PEM certificates that the hosts trust besides those of the BootstrapConfig. The controller trusts
	// them too where it reads checksum files.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	TrustedCAs string `json:"trustedCAs,omitempty"`

	// proxy is used as a whole: a BootstrapConfig that has a proxy uses nothing of this one.
	// +optional
	Proxy Proxy `json:"proxy,omitempty,omitzero"`

	// preCommands run before those of the BootstrapConfig.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	PreCommands []string `json:"preCommands,omitempty"`

	// postCommands run before those of the BootstrapConfig.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	PostCommands []string `json:"postCommands,omitempty"`
}

// NodeProfileStatus is what was read from checksum files.
// +kubebuilder:validation:MinProperties=1
type NodeProfileStatus struct {
	// releases are the checksums that were read from checksum files. A checksum stays as it was read first: a server that
	// replaces a release later is refused by every host. To have one read again, remove its entry with
	// kubectl edit --subresource=status.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +listMapKey=version
	// +listMapKey=architecture
	// +kubebuilder:validation:MaxItems=256
	Releases []ReleaseDigest `json:"releases,omitempty"`
}

const (
	// MaxReleases is how many checksums the status of a NodeProfile has at most.
	MaxReleases = 256

	// MaxReleaseVersion is how many characters the version of a binary has at most.
	MaxReleaseVersion = 64
)

// NodeProfile is what the hosts of a fleet have in common: where the binaries of each version of Kubernetes come from, and
// defaults for BootstrapConfigs. BootstrapConfigs of the same namespace refer to it in spec.profileRef.
// A change has an effect on machines that are created after it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeprofiles,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Mirror",type="string",JSONPath=".spec.releases.mirror",description="Where binaries come from instead of the servers of their projects"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type NodeProfile struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the hosts have in common.
	// +optional
	Spec NodeProfileSpec `json:"spec,omitempty,omitzero"`

	// status is what was read from checksum files.
	// +optional
	Status NodeProfileStatus `json:"status,omitempty,omitzero"`
}

// NodeProfileList is a list of NodeProfiles.
// +kubebuilder:object:root=true
type NodeProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the NodeProfiles.
	Items []NodeProfile `json:"items"`
}
