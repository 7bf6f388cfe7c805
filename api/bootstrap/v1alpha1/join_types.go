// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Join describes how a machine reaches and trusts the API server of its cluster.
// +kubebuilder:validation:MinProperties=1
type Join struct {
	// method is how the machine joins: with KubeletTLSBootstrap the kubelet requests its certificate itself, which works
	// with every cluster; Kubeadm runs kubeadm join, and works with clusters made by kubeadm. The kubelet is then
	// configured by the cluster's ConfigMap kubelet-config, over which kubelet.configuration is merged. Default
	// KubeletTLSBootstrap.
	// +optional
	// +kubebuilder:validation:Enum=KubeletTLSBootstrap;Kubeadm
	Method JoinMethod `json:"method,omitempty"`

	// endpoint is the host and port at which machines reach the API server, where that differs from
	// spec.controlPlaneEndpoint of the Cluster. The certificate of the API server must be valid for the host,
	// or for tlsServerName. Default: the endpoint of the Cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$`
	Endpoint string `json:"endpoint,omitempty"`

	// tlsServerName is the name that the certificate of the API server is checked against, where it is not
	// valid for the endpoint's host. Default: the endpoint's host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.:-]+$`
	TLSServerName string `json:"tlsServerName,omitempty"`

	// tokenTTLSeconds is how long the bootstrap token is valid after it was made or last renewed. It is
	// renewed when half of that time has gone, as long as the machine has not joined, and deleted once it
	// has. Default 1800. Unit: seconds.
	// +optional
	// +default=1800
	// +kubebuilder:validation:Minimum=300
	// +kubebuilder:validation:Maximum=86400
	TokenTTLSeconds *int32 `json:"tokenTTLSeconds,omitempty"`

	// ignorePreflightErrors names checks of kubeadm join, such as SystemVerification, whose errors become
	// warnings. Only with method Kubeadm. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9._-]+$`
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
}

// JoinMethod is how a machine joins its cluster.
type JoinMethod string

const (
	// JoinKubeletTLSBootstrap means that the kubelet requests its certificate itself.
	JoinKubeletTLSBootstrap JoinMethod = "KubeletTLSBootstrap"

	// JoinKubeadm runs kubeadm join.
	JoinKubeadm JoinMethod = "Kubeadm"
)
