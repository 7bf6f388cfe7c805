// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// VCDMachineTemplateSpec is what VCDMachines are made from.
type VCDMachineTemplateSpec struct {
	// template is the VCDMachine to make. Immutable: create a template of another name to roll out a change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: create a VCDMachineTemplate of another name and refer to it"
	Template VCDMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// VCDMachineTemplateResource is one VCDMachine to make.
// +kubebuilder:validation:MinProperties=1
type VCDMachineTemplateResource struct {
	// metadata is put on each VCDMachine.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(key, !key.startsWith('infrastructure.drover.io/'))",message="annotations of infrastructure.drover.io are about one machine, so a template must not have them"
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each VCDMachine.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.providerID)",message="providerID belongs to one machine and must not be set in a template"
	Spec VCDMachineSpec `json:"spec,omitempty,omitzero"`
}

// VCDMachineTemplate is a template for VCDMachines.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=vcdmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="vApp",type="string",JSONPath=".spec.template.spec.vApp",description="vApp"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.capacity.cpu",description="CPUs of one machine"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.capacity.memory",description="Memory of one machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type VCDMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what VCDMachines are made from.
	// +required
	Spec VCDMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what one machine of this template offers, and whether the cloud has what it names.
	// +optional
	Status MachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetStatus returns the status for reading and changing in place.
func (t *VCDMachineTemplate) GetStatus() *MachineTemplateStatus { return &t.Status }

// Machine returns a machine as this template would make it.
func (t *VCDMachineTemplate) Machine() *VCDMachine {
	return &VCDMachine{Spec: *t.Spec.Template.Spec.DeepCopy()}
}

// VCDMachineTemplateList is a list of VCDMachineTemplates.
// +kubebuilder:object:root=true
type VCDMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the VCDMachineTemplates.
	Items []VCDMachineTemplate `json:"items"`
}
