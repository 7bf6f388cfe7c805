// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SimMachineSpec is what a simulated machine should be. It is immutable: to change it, create a template of another name and
// refer to that. Only providerID is set later, once, by the provider.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",message="zone is immutable: roll out a new SimMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.faults) == has(oldSelf.faults) && (!has(self.faults) || self.faults == oldSelf.faults)",message="faults are immutable: roll out a new SimMachineTemplate instead"
type SimMachineSpec struct {
	// providerID is the identifier that the Node has, too, sim:///<zone>/<instance>. It is set by the
	// provider; set it yourself only
	// to adopt an instance of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// instanceType chooses the capacity: small (2 CPU, 4Gi), medium (4 CPU, 8Gi), large (8 CPU, 32Gi),
	// xlarge (32 CPU, 128Gi) or arm-medium (4 CPU, 8Gi, arm64). Default small. Immutable.
	// +optional
	// +default="small"
	// +kubebuilder:validation:Enum=small;medium;large;xlarge;arm-medium
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instanceType is immutable: roll out a new SimMachineTemplate instead"
	InstanceType string `json:"instanceType,omitempty"`

	// zone is where the instance is placed unless the Machine names a failure domain, which wins.
	// Without either the zone is zone-a. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// bootDelaySeconds is the time between creation and the moment the instance runs. Default 0. Immutable.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="bootDelaySeconds is immutable: roll out a new SimMachineTemplate instead"
	BootDelaySeconds *int32 `json:"bootDelaySeconds,omitempty"`

	// faults makes the simulated cloud or host fail in a chosen way. Immutable.
	// +optional
	Faults SimFaults `json:"faults,omitempty,omitzero"`
}

// SimFaults are failures to inject.
// +kubebuilder:validation:MinProperties=1
type SimFaults struct {
	// createError makes every creation fail with this text.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CreateError string `json:"createError,omitempty"`

	// quotaExceeded makes every creation fail as if the account's quota was used up.
	// +optional
	QuotaExceeded *bool `json:"quotaExceeded,omitempty"`

	// insufficientCapacity makes every creation fail as if the zone had no room for the instance type.
	// +optional
	InsufficientCapacity *bool `json:"insufficientCapacity,omitempty"`

	// neverJoins makes the instance run without its kubelet ever starting.
	// +optional
	NeverJoins *bool `json:"neverJoins,omitempty"`

	// hangsAfterSeconds makes the host stop responding this long after it started to run: its kubelet stops,
	// the instance still exists. A restart of the instance after that ends it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	HangsAfterSeconds *int32 `json:"hangsAfterSeconds,omitempty"`
}

// SimMachine is a simulated machine: a host that consumes its bootstrap data and behaves as a kubelet
// would, without a virtual machine.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=simmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this SimMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the instance"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".status.failureDomain",description="Zone the instance is in"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Joined",type="string",JSONPath=".status.conditions[?(@.type==\"HostJoined\")].status",priority=10,description="Whether the host joined its cluster"
type SimMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +optional
	// +default={}
	Spec SimMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *SimMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *SimMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *SimMachine) GetStatus() *MachineStatus { return &m.Status }

// SimMachineList is a list of SimMachines.
// +kubebuilder:object:root=true
type SimMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the SimMachines.
	Items []SimMachine `json:"items"`
}
