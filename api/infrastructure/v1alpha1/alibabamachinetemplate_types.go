// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// AlibabaMachineTemplateSpec is what AlibabaMachines are made from.
type AlibabaMachineTemplateSpec struct {
	// template is the AlibabaMachine to make. Immutable: create a template of another name to roll out a change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: create an AlibabaMachineTemplate of another name and refer to it"
	Template AlibabaMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// AlibabaMachineTemplateResource is one AlibabaMachine to make.
type AlibabaMachineTemplateResource struct {
	// metadata is put on each AlibabaMachine.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(key, !key.startsWith('infrastructure.drover.io/'))",message="annotations of infrastructure.drover.io are about one machine, so a template must not have them"
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each AlibabaMachine.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.providerID)",message="providerID belongs to one machine and must not be set in a template"
	Spec AlibabaMachineSpec `json:"spec,omitempty,omitzero"`
}

// AlibabaMachineTemplate is a template for AlibabaMachines.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=alibabamachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="InstanceType",type="string",JSONPath=".spec.template.spec.instanceType",description="Instance type"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.capacity.cpu",description="CPUs of one machine"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.capacity.memory",description="Memory of one machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type AlibabaMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what AlibabaMachines are made from.
	// +required
	Spec AlibabaMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what one machine of this template offers, and whether the cloud has what it names.
	// +optional
	Status MachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetStatus returns the status for reading and changing in place.
func (t *AlibabaMachineTemplate) GetStatus() *MachineTemplateStatus { return &t.Status }

// Machine returns a machine as this template would make it.
func (t *AlibabaMachineTemplate) Machine() *AlibabaMachine {
	return &AlibabaMachine{Spec: *t.Spec.Template.Spec.DeepCopy()}
}

// AlibabaMachineTemplateList is a list of AlibabaMachineTemplates.
// +kubebuilder:object:root=true
type AlibabaMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AlibabaMachineTemplates.
	Items []AlibabaMachineTemplate `json:"items"`
}
