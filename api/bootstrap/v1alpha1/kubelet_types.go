// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubelet is the configuration of the kubelet.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.nodeIP) || !has(self.extraArgs) || !('node-ip' in self.extraArgs)",message="set nodeIP or the flag node-ip in extraArgs, not both",fieldPath=".nodeIP"
type Kubelet struct {
	// configuration is a fragment of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that is merged
	// over ours: objects are merged, anything else replaces, null removes. Fields that the kubelet would not
	// know, more than six levels of objects and lists in one another, and more than 16 KiB are refused. Default: none.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Configuration *runtime.RawExtension `json:"configuration,omitempty"`

	// clusterDNS are the addresses of the cluster's DNS Service. Default: the tenth address of the first
	// service range in spec.clusterNetwork of the Cluster, or 10.96.0.10 where it names none; with join.method
	// Kubeadm what the cluster's ConfigMap kubelet-config has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="must be IP addresses"
	ClusterDNS []string `json:"clusterDNS,omitempty"`

	// nodeLabels are labels that the Node has from the moment it registers. A kubelet may not set labels of
	// kubernetes.io and k8s.io except those of node.kubernetes.io and kubelet.kubernetes.io and a few well-known
	// ones; put the others, such as node-role.kubernetes.io, on the Machine. Default: none.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// taints are taints that the Node has from the moment it registers, besides
	// node.cluster.x-k8s.io/uninitialized:NoSchedule, which the core removes when it has synchronised labels. A Node
	// has one value of each key and effect.
	// Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Taints []corev1.Taint `json:"taints,omitempty"`

	// providerID is the provider ID that the kubelet registers its Node with, for clusters without a cloud
	// controller manager. In cloud-config it may use the instance's metadata, as in
	// '{{ ds.meta_data.provider_id }}'. Default: none, the cloud controller manager sets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hostnameOverride is the name that the kubelet registers its Node with. In cloud-config it may use the
	// instance's metadata, as in '{{ ds.meta_data.local_hostname }}'. Default: none, the kubelet uses the
	// name of the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostnameOverride string `json:"hostnameOverride,omitempty"`

	// nodeIP chooses the addresses of the Node, which the host looks up before each start of the kubelet. Default: none, the
	// kubelet uses the address of its default route, IPv4 first, or the cloud controller manager sets them.
	// +optional
	NodeIP NodeIP `json:"nodeIP,omitempty,omitzero"`

	// cloudProvider is External where the cluster has a cloud controller manager: the Node then is not
	// schedulable until that has initialised it. Default None.
	// +optional
	// +kubebuilder:validation:Enum=None;External
	CloudProvider CloudProvider `json:"cloudProvider,omitempty"`

	// credentialProviders are programs that provide the credentials of registries when the kubelet pulls
	// images. They are called in this order. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	CredentialProviders []CredentialProvider `json:"credentialProviders,omitempty"`

	// extraArgs are further flags of the kubelet, without the leading dashes, such as node-ip with a fixed
	// address. Flags that this controller sets itself are refused. Default: none.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="!['bootstrap-kubeconfig','kubeconfig','config','node-labels','register-with-taints','provider-id','hostname-override','cloud-provider'].exists(k, k in self)",message="bootstrap-kubeconfig, kubeconfig and config are set by the controller; node-labels, register-with-taints, provider-id, hostname-override and cloud-provider have fields of their own"
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`
}

// CredentialProvider is a kubelet image credential provider.
type CredentialProvider struct {
	// name is the name of the program, such as ecr-credential-provider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	Name string `json:"name,omitempty"`

	// matchImages are the images for which the program is called, such as *.dkr.ecr.*.amazonaws.com.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9*][A-Za-z0-9*._:/-]*$`
	MatchImages []string `json:"matchImages,omitempty"`

	// binary is where the program is downloaded from, one entry per architecture. Default: the image has it in
	// /opt/drover/credential-providers.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Binary []Download `json:"binary,omitempty"`

	// cacheSeconds is how long credentials are cached if the program does not set it. Default 43200. Unit: seconds.
	// +optional
	// +default=43200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	CacheSeconds *int32 `json:"cacheSeconds,omitempty"`

	// args are the arguments of the program. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Args []string `json:"args,omitempty"`

	// env are environment variables of the program. Default: none.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Env map[string]string `json:"env,omitempty"`
}

// CloudProvider is the component that initialises Nodes.
type CloudProvider string

const (
	// CloudProviderNone is a cluster without a cloud controller manager.
	CloudProviderNone CloudProvider = "None"

	// CloudProviderExternal is a cluster with a cloud controller manager.
	CloudProviderExternal CloudProvider = "External"
)
