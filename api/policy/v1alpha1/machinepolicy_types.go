// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachinePolicySpec is the desired state of a MachinePolicy. Fields that are not set have the defaults.
type MachinePolicySpec struct {
	// selector selects MachineDeployments, and MachineSets that no MachineDeployment owns, of this namespace by
	// their labels. {} selects all of them. If several policies select one object, the oldest is in force for it;
	// of two that are equally old, the first by name.
	// +required
	Selector *Selector `json:"selector,omitempty"`

	// replacement limits how many unhealthy Machines are replaced at once.
	// +optional
	Replacement ReplacementBudget `json:"replacement,omitempty,omitzero"`

	// overshoot limits how many Machines there may be beyond the desired number before it is frozen.
	// +optional
	Overshoot OvershootLimits `json:"overshoot,omitempty,omitzero"`

	// creation limits how many Machines may be on their way into the cluster.
	// +optional
	Creation CreationLimits `json:"creation,omitempty,omitzero"`

	// rollout configures the progress deadline of a MachineDeployment.
	// +optional
	Rollout RolloutPolicy `json:"rollout,omitempty,omitzero"`

	// drain has settings of a drain for which MachineDrainRules and the Machine's timeouts have no field.
	// +optional
	Drain DrainPolicy `json:"drain,omitempty,omitzero"`
}

// ReplacementBudget limits how many unhealthy Machines are replaced at once. A Machine is being replaced from its
// deletion until the one that came in its place has been healthy for ten minutes. Each limit is a number or a percentage, which is rounded down but never below 1; 0 replaces
// nothing.
// +kubebuilder:validation:MinProperties=1
type ReplacementBudget struct {
	// maxPerDeployment is how many Machines of one MachineDeployment, or of one stand-alone MachineSet, are
	// replaced at once. A percentage is of spec.replicas. Default: spec.remediation.maxInFlight of the
	// MachineDeployment, or 10%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 0 && int(self) <= 100000",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxPerDeployment *intstr.IntOrString `json:"maxPerDeployment,omitempty"`

	// maxPerCluster is how many Machines of one Cluster are replaced at once. A percentage is of the Machines that
	// exist. Default 10%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 0 && int(self) <= 100000",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxPerCluster *intstr.IntOrString `json:"maxPerCluster,omitempty"`

	// maxPerFailureDomain is how many Machines of one failure domain of one Cluster are replaced at once. A
	// percentage is of the Machines that exist there. Machines without a failure domain are not limited by it.
	// Default 10%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 0 && int(self) <= 100000",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxPerFailureDomain *intstr.IntOrString `json:"maxPerFailureDomain,omitempty"`

	// stopAboveUnhealthy is how many Machines of one Cluster may be unhealthy before none is replaced any more: so
	// many at once are rarely the Machines' own fault. A percentage is of the Machines that exist; 100% never stops.
	// Whatever it is, nothing is replaced in a failure domain whose Machines, two or more, are all unhealthy while
	// others have healthy ones, but Machines with cluster.x-k8s.io/remediate-machine. Default 40%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 0 && int(self) <= 100000",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	StopAboveUnhealthy *intstr.IntOrString `json:"stopAboveUnhealthy,omitempty"`
}

// OvershootLimits configure when a MachineDeployment, or a stand-alone MachineSet, is frozen: no Machines are created
// and none are replaced. Machines that are being deleted do not count.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.up) || !has(self.down) || self.down <= self.up",message="down must not be greater than up",fieldPath=".down"
type OvershootLimits struct {
	// up is how many Machines there may be beyond spec.replicas and maxSurge. More of them freeze. Default: the flag
	// --safety-up of the manager, which is 2 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Up *int32 `json:"up,omitempty"`

	// down is how many fewer than at the limit there must be to unfreeze. Default: the flag --safety-down of the manager,
	// which is 1 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Down *int32 `json:"down,omitempty"`
}

// CreationLimits limit how many Machines may be pending: created, not being deleted, and without a Node.
// +kubebuilder:validation:MinProperties=1
type CreationLimits struct {
	// maxPendingPerDeployment is how many Machines of one MachineDeployment, or of one stand-alone MachineSet,
	// may be pending. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxPendingPerDeployment *int32 `json:"maxPendingPerDeployment,omitempty"`

	// maxPendingPerCluster is how many Machines of the whole Cluster may be pending for one of what this policy
	// selects to be created. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxPendingPerCluster *int32 `json:"maxPendingPerCluster,omitempty"`
}

// RolloutPolicy configures rollouts of a MachineDeployment.
// +kubebuilder:validation:MinProperties=1
type RolloutPolicy struct {
	// progressDeadlineSeconds is how long a MachineDeployment may make no progress, while it rolls out or scales up,
	// before its condition Progressing is False. Nothing else follows from it. 0 is for ever. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// DrainPolicy configures how Nodes are drained.
// +kubebuilder:validation:MinProperties=1
type DrainPolicy struct {
	// forceAfterSeconds is how long after the drain began the last Pod must have ended. Pods are deleted past their
	// PodDisruptionBudgets, early enough for their grace period. Default: never.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ForceAfterSeconds *int32 `json:"forceAfterSeconds,omitempty"`

	// serialVolumes evicts Pods with PersistentVolumeClaims one after another, each when the volumes of the one
	// before are detached. Default false.
	// +optional
	SerialVolumes *bool `json:"serialVolumes,omitempty"`
}

// MachinePolicyStatus is what was observed.
// +kubebuilder:validation:MinProperties=1
type MachinePolicyStatus struct {
	// conditions are Ready and Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// selected is the number of MachineDeployments and stand-alone MachineSets that the selector selects.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Selected *int32 `json:"selected,omitempty"`

	// observedGeneration is the generation of the spec that the rest of the status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MachinePolicy configures how the Machines of the MachineDeployments and MachineSets that it selects are created,
// replaced and drained. Without one the defaults apply.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinepolicies,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Selected",type="integer",JSONPath=".status.selected",description="MachineDeployments and MachineSets that the policy selects"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the policy is in force for all of them"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Per Deployment",type="string",JSONPath=".spec.replacement.maxPerDeployment",priority=10,description="Machines of one MachineDeployment replaced at once"
// +kubebuilder:printcolumn:name="Per Cluster",type="string",JSONPath=".spec.replacement.maxPerCluster",priority=10,description="Machines of one Cluster replaced at once"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MachinePolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the policy.
	// +required
	Spec MachinePolicySpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachinePolicyStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (p *MachinePolicy) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *MachinePolicy) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// MachinePolicyList is a list of MachinePolicies.
// +kubebuilder:object:root=true
type MachinePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MachinePolicies.
	Items []MachinePolicy `json:"items"`
}
