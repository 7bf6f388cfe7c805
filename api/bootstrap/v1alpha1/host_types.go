// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Containerd is the configuration of the container runtime.
// +kubebuilder:validation:MinProperties=1
type Containerd struct {
	// sandboxImage is the image of the pause container. Default registry.k8s.io/pause:3.10.1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`
	SandboxImage string `json:"sandboxImage,omitempty"`

	// mirrors are tried in order before the registry itself.
	// +optional
	// +listType=map
	// +listMapKey=registry
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Mirrors []RegistryMirror `json:"mirrors,omitempty"`

	// registryCredentialsFrom takes credentials of registries from a Secret of type
	// kubernetes.io/dockerconfigjson, whose key is .dockerconfigjson. The kubelet pulls with them, and containerd
	// uses them for the sandbox image and the mirrors. They are then in the user data, which a cloud may show to
	// those who can read instances; on the host only root can read them. Default: none.
	// +optional
	RegistryCredentialsFrom SecretKeyReference `json:"registryCredentialsFrom,omitempty,omitzero"`
}

// RegistryMirror names the mirrors of one registry.
// +kubebuilder:validation:XValidation:rule="!has(self.insecureSkipTLSVerify) || !self.insecureSkipTLSVerify || !has(self.trustedCAs)",message="set trustedCAs or insecureSkipTLSVerify, not both"
type RegistryMirror struct {
	// registry is the host of the registry, with its port if it has one, such as docker.io; _default stands
	// for every registry that is not named.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(_default|[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)$`
	Registry string `json:"registry,omitempty"`

	// endpoints are the URLs of the mirrors. Where the path has the segment v2, as in
	// https://mirror.example.com/v2/docker, it is that of the registry API itself (override_path of containerd);
	// to any other path containerd appends /v2.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^https?://[^\s"'\\]+$`
	Endpoints []string `json:"endpoints,omitempty"`

	// trustedCAs are PEM certificates of authorities that containerd trusts for these endpoints, besides those of the host.
	// Default: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	TrustedCAs string `json:"trustedCAs,omitempty"`

	// insecureSkipTLSVerify makes containerd accept any certificate of these endpoints. Whoever is between the host and
	// the mirror can then replace images that are named by tag. Default false.
	// +optional
	InsecureSkipTLSVerify *bool `json:"insecureSkipTLSVerify,omitempty"`
}

// Binaries are programs to download. Each is a list with at most one entry per architecture; the host takes
// the one of its own and fails visibly where there is none, or where the checksum does not match.
// +kubebuilder:validation:MinProperties=1
type Binaries struct {
	// kubelet is the kubelet itself. It is installed as /opt/bin/kubelet. Default: /usr/bin/kubelet of the image.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Kubelet []Download `json:"kubelet,omitempty"`

	// kubeadm is for join.method Kubeadm. It is installed as /opt/bin/kubeadm. Default: /usr/bin/kubeadm of the image.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Kubeadm []Download `json:"kubeadm,omitempty"`

	// cniPlugins is a gzip-compressed tar archive of CNI plugins. It is unpacked into /opt/cni/bin. Default:
	// those of the image.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	CNIPlugins []Download `json:"cniPlugins,omitempty"`

	// containerd is a gzip-compressed tar archive of containerd as its project releases it, with the folder bin. It is
	// unpacked into /opt, and runs instead of the containerd of the image. Default: that of the image.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Containerd []Download `json:"containerd,omitempty"`

	// runc is runc itself. It is installed as /opt/bin/runc. Default: that of the image.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Runc []Download `json:"runc,omitempty"`

	// crictl is a gzip-compressed tar archive with crictl. It is unpacked into /opt/bin. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Crictl []Download `json:"crictl,omitempty"`
}

// Download is one file to download, and what it must be.
type Download struct {
	// architecture is the CPU architecture of the host: amd64 or arm64.
	// +required
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`

	// url is where the file is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9._~:/?#@!&()*+,;=%\[\]-]+$`
	URL string `json:"url,omitempty"`

	// sha256 is the SHA-256 checksum of the file, in lower-case hexadecimal digits.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// File is a file on the host.
// +kubebuilder:validation:XValidation:rule="has(self.content) != has(self.contentFrom)",message="exactly one of content and contentFrom must be set"
type File struct {
	// path is the absolute path of the file. Folders are made as needed. The files that the controller
	// writes itself cannot be replaced.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._@:+,=-]+)+$`
	// +kubebuilder:validation:XValidation:rule="self.split('/').all(s, s != '.' && s != '..')",message="must not contain . or .."
	Path string `json:"path,omitempty"`

	// permissions are the file's mode as octal digits. Default 0644; 0600 where the content comes from a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^[0-7]{3,4}$`
	Permissions string `json:"permissions,omitempty"`

	// owner is the user, or user:group, that owns the file, of the image, of users or of packages. The bootstrap fails where
	// it does not exist. Default root:root.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$`
	Owner string `json:"owner,omitempty"`

	// content is the content of the file.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=65536
	Content *string `json:"content,omitempty"`

	// encoding is the encoding of content: Plain or Base64. Default Plain. It does not apply to contentFrom.
	// +optional
	// +kubebuilder:validation:Enum=Plain;Base64
	Encoding Encoding `json:"encoding,omitempty"`

	// contentFrom takes the content from a Secret.
	// +optional
	ContentFrom SecretKeyReference `json:"contentFrom,omitempty,omitzero"`
}

// Encoding is the encoding of bytes in a field.
type Encoding string

const (
	// Plain is text as it is.
	Plain Encoding = "Plain"

	// Base64 is standard base64 with padding.
	Base64 Encoding = "Base64"
)

// SecretKeyReference names one key of a Secret in the namespace of the BootstrapConfig.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key is the key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// User is a user on the host. It has no password: log in with an SSH key.
type User struct {
	// name is the name of the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]*$`
	Name string `json:"name,omitempty"`

	// groups are further groups of the user, which must exist on the image. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_-]*$`
	Groups []string `json:"groups,omitempty"`

	// sudo is a rule for sudo without the user's name, such as ALL=(ALL) NOPASSWD:ALL. Default: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^\x00-\x08\x0a-\x1f\x7f]+$`
	Sudo string `json:"sudo,omitempty"`

	// shell is the user's shell. Default /bin/bash.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._-]+)+$`
	Shell string `json:"shell,omitempty"`

	// sshAuthorizedKeys are public keys that may log in as the user, each a line of an authorized_keys
	// file: options, if any, the type, the key and a comment. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=8192
	// +kubebuilder:validation:items:Pattern=`^([^\x00-\x1f\x7f]+ )?(ssh-(rsa|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com) AAAA[0-9A-Za-z+/]+={0,2}( [^\x00-\x1f\x7f]*)?$`
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`
}

// NTP chooses the time servers.
// +kubebuilder:validation:MinProperties=1
type NTP struct {
	// servers are the names or addresses of the time servers.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9.:-]*$`
	Servers []string `json:"servers,omitempty"`
}

// Proxy is an HTTP proxy.
// +kubebuilder:validation:MinProperties=1
type Proxy struct {
	// http is the URL of the proxy for http. With packages, packageUpgrade or a subscription, users of the host can read a
	// password in it in dnf.conf and rhsm.conf.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s"'\\$]+$`
	HTTP string `json:"http,omitempty"`

	// https is the URL of the proxy for https. With packages, packageUpgrade or a subscription, users of the host can read a
	// password in it in dnf.conf and rhsm.conf.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s"'\\$]+$`
	HTTPS string `json:"https,omitempty"`

	// noProxy are hosts, domains and CIDR blocks that are reached directly, besides localhost and the API
	// server. Name the pod and service ranges here. apt and dnf follow it while the host is bootstrapped; what is started
	// later has only the names of hosts with apt, without those that begin with a dot or have *, / or :, and uses the
	// proxy for all hosts with dnf.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9.*:/\[\]_-]+$`
	NoProxy []string `json:"noProxy,omitempty"`
}

// FlatcarOptions are for Flatcar Container Linux.
// +kubebuilder:validation:MinProperties=1
type FlatcarOptions struct {
	// updates configures the update engine: Reboot installs updates and reboots, Download installs them
	// for the next reboot, which another component starts, Off installs none. Default Download: a reboot
	// without a drain of the Node is a disruption.
	// +optional
	// +kubebuilder:validation:Enum=Reboot;Download;Off
	Updates FlatcarUpdateStrategy `json:"updates,omitempty"`
}

// FlatcarUpdateStrategy is a setting of the update engine.
type FlatcarUpdateStrategy string

const (
	// FlatcarUpdatesReboot installs updates and reboots.
	FlatcarUpdatesReboot FlatcarUpdateStrategy = "Reboot"

	// FlatcarUpdatesDownload installs updates for the next reboot.
	FlatcarUpdatesDownload FlatcarUpdateStrategy = "Download"

	// FlatcarUpdatesOff installs no updates.
	FlatcarUpdatesOff FlatcarUpdateStrategy = "Off"
)
