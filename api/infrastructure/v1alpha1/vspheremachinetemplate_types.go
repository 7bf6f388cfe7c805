// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// VSphereMachineTemplateSpec is what VSphereMachines are made from.
type VSphereMachineTemplateSpec struct {
	// template is the VSphereMachine to make. Immutable: create a template of another name to roll out a change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: create a VSphereMachineTemplate of another name and refer to it"
	Template VSphereMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// VSphereMachineTemplateResource is one VSphereMachine to make.
// +kubebuilder:validation:MinProperties=1
type VSphereMachineTemplateResource struct {
	// metadata is put on each VSphereMachine.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(key, !key.startsWith('infrastructure.drover.io/'))",message="annotations of infrastructure.drover.io are about one machine, so a template must not have them"
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each VSphereMachine.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.providerID)",message="providerID belongs to one machine and must not be set in a template"
	Spec VSphereMachineSpec `json:"spec,omitempty,omitzero"`
}

// VSphereMachineTemplate is a template for VSphereMachines.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=vspheremachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Template",type="string",JSONPath=".spec.template.spec.template",description="Template that is cloned"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.capacity.cpu",description="CPUs of one machine"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.capacity.memory",description="Memory of one machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type VSphereMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what VSphereMachines are made from.
	// +required
	Spec VSphereMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what one machine of this template offers, and whether the cloud has what it names.
	// +optional
	Status MachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetStatus returns the status for reading and changing in place.
func (t *VSphereMachineTemplate) GetStatus() *MachineTemplateStatus { return &t.Status }

// Machine returns a machine as this template would make it.
func (t *VSphereMachineTemplate) Machine() *VSphereMachine {
	return &VSphereMachine{Spec: *t.Spec.Template.Spec.DeepCopy()}
}

// VSphereMachineTemplateList is a list of VSphereMachineTemplates.
// +kubebuilder:object:root=true
type VSphereMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the VSphereMachineTemplates.
	Items []VSphereMachineTemplate `json:"items"`
}
