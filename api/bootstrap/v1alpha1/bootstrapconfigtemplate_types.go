// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// BootstrapConfigTemplateSpec is what BootstrapConfigs are made from.
type BootstrapConfigTemplateSpec struct {
	// template is the BootstrapConfig to make. Immutable: create a template of another name to roll out a change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: create a BootstrapConfigTemplate of another name and refer to it"
	Template BootstrapConfigTemplateResource `json:"template,omitempty,omitzero"`
}

// BootstrapConfigTemplateResource is one BootstrapConfig to make.
type BootstrapConfigTemplateResource struct {
	// metadata is put on each BootstrapConfig.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each BootstrapConfig.
	// +required
	Spec BootstrapConfigSpec `json:"spec,omitempty,omitzero"`
}

// BootstrapConfigTemplate is a template for BootstrapConfigs.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=bootstrapconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="OS",type="string",JSONPath=".spec.template.spec.operatingSystem",description="Operating system"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type BootstrapConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what BootstrapConfigs are made from.
	// +required
	Spec BootstrapConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// BootstrapConfigTemplateList is a list of BootstrapConfigTemplates.
// +kubebuilder:object:root=true
type BootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the BootstrapConfigTemplates.
	Items []BootstrapConfigTemplate `json:"items"`
}
