// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RestartRemediationTemplateSpec is what RestartRemediations are made from. It may be changed; what was made
// from it before stays as it was.
type RestartRemediationTemplateSpec struct {
	// template is the RestartRemediation to make.
	// +required
	Template RestartRemediationTemplateResource `json:"template,omitempty,omitzero"`
}

// RestartRemediationTemplateResource is one RestartRemediation to make.
// +kubebuilder:validation:MinProperties=1
type RestartRemediationTemplateResource struct {
	// metadata is put on each RestartRemediation.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each RestartRemediation.
	// +optional
	// +default={}
	Spec RestartRemediationSpec `json:"spec,omitempty,omitzero"`
}

// RestartRemediationTemplate is a template for RestartRemediations, for spec.remediation.templateRef of a
// MachineHealthCheck.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=restartremediationtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Limit",type="integer",JSONPath=".spec.template.spec.retryLimit",description="Restarts that are tried"
// +kubebuilder:printcolumn:name="Timeout",type="integer",JSONPath=".spec.template.spec.timeoutSeconds",description="Seconds that each restart has"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type RestartRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what RestartRemediations are made from.
	// +required
	Spec RestartRemediationTemplateSpec `json:"spec,omitempty,omitzero"`
}

// RestartRemediationTemplateList is a list of RestartRemediationTemplates.
// +kubebuilder:object:root=true
type RestartRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the RestartRemediationTemplates.
	Items []RestartRemediationTemplate `json:"items"`
}
