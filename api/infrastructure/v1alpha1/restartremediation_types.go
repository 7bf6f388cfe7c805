// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestartRemediationSpec is how often a Machine's instance is restarted before the Machine is replaced.
type RestartRemediationSpec struct {
	// retryLimit is how many restarts are tried before the Machine is handed back to its owner for replacement.
	// Default 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	RetryLimit *int32 `json:"retryLimit,omitempty"`

	// timeoutSeconds is how long each restart has to make the Machine healthy, in seconds from the moment that the
	// cloud took it. It has to be longer than the instance takes to boot, and than the timeout of the
	// MachineHealthCheck's conditions. Default 300.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// RestartRemediationPhase is the phase of a remediation.
// +kubebuilder:validation:Enum=Restarting;Waiting;HandedBack
type RestartRemediationPhase string

const (
	// RestartRemediationRestarting means that the restart is being requested from the cloud.
	RestartRemediationRestarting RestartRemediationPhase = "Restarting"
	// RestartRemediationWaiting means that the cloud took the restart; the Machine has its time to become healthy.
	RestartRemediationWaiting RestartRemediationPhase = "Waiting"
	// RestartRemediationHandedBack means that restarts did not help, or cannot; the owner of the Machine is to replace it.
	RestartRemediationHandedBack RestartRemediationPhase = "HandedBack"
)

// RestartRemediationStatus is the observed state of a remediation.
// +kubebuilder:validation:MinProperties=1
type RestartRemediationStatus struct {
	// conditions are Progressing and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is the phase of the remediation: Restarting, Waiting or HandedBack; empty before the first restart.
	// +optional
	Phase RestartRemediationPhase `json:"phase,omitempty"`

	// attempts is the number of started restarts. It is written before the cloud is called.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts *int32 `json:"attempts,omitempty"`

	// lastRestartTime is when the last restart was begun and, once the cloud took it, when that was.
	// +optional
	LastRestartTime metav1.Time `json:"lastRestartTime,omitempty,omitzero"`
}

// RestartRemediation requests the restart of the instance of the Machine that owns it. A MachineHealthCheck whose
// spec.remediation.templateRef names a RestartRemediationTemplate creates one, under the Machine's name, while the
// Machine is unhealthy, and deletes it when the Machine is healthy again.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=restartremediations,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="Phase of the remediation"
// +kubebuilder:printcolumn:name="Attempts",type="integer",JSONPath=".status.attempts",description="Restarts that were begun"
// +kubebuilder:printcolumn:name="Limit",type="integer",JSONPath=".spec.retryLimit",description="Restarts that are tried"
// +kubebuilder:printcolumn:name="Restarted",type="date",JSONPath=".status.lastRestartTime",description="Time since the last restart"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Progressing\")].reason",description="Reason of the Progressing condition"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type RestartRemediation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how often the instance is restarted. Immutable.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: change the RestartRemediationTemplate for what comes next"
	Spec RestartRemediationSpec `json:"spec,omitempty,omitzero"`

	// status is what was done.
	// +optional
	Status RestartRemediationStatus `json:"status,omitempty,omitzero"`
}

// RestartRemediationList is a list of RestartRemediations.
// +kubebuilder:object:root=true
type RestartRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the RestartRemediations.
	Items []RestartRemediation `json:"items"`
}
