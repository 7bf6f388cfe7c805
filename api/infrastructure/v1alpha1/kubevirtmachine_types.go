// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeVirtMachineSpec is what a virtual machine of KubeVirt should be. It is immutable: to change it, create a template of
// another name and refer to that. Only providerID is set later, once, by the provider, and credentialsSecretName may name
// another Secret.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is set once and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName)",message="credentialsSecretName may name another Secret, and is neither added nor removed: the virtual machine may be in another cluster without it"
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || has(self.credentialsSecretName)",message="with the provider's own credentials the virtual machine is in the namespace of this object: leave namespace out or set credentialsSecretName"
// +kubebuilder:validation:XValidation:rule="has(self.instancetype) != has(self.cpu)",message="set either instancetype or cpu with memoryMiB"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(self.memoryMiB)",message="cpu and memoryMiB belong together"
// +kubebuilder:validation:XValidation:rule="has(self.disks) == has(oldSelf.disks) && (!has(self.disks) || self.disks == oldSelf.disks)",message="disks are immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu)",message="cpu is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.memoryMiB) == has(oldSelf.memoryMiB) && (!has(self.memoryMiB) || self.memoryMiB == oldSelf.memoryMiB)",message="memoryMiB is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.instancetype) == has(oldSelf.instancetype) && (!has(self.instancetype) || self.instancetype == oldSelf.instancetype)",message="instancetype is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.preference) == has(oldSelf.preference) && (!has(self.preference) || self.preference == oldSelf.preference)",message="preference is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.networks) == has(oldSelf.networks) && (!has(self.networks) || self.networks == oldSelf.networks)",message="networks are immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) == has(oldSelf.nodeSelector) && (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)",message="nodeSelector is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.tolerations) == has(oldSelf.tolerations) && (!has(self.tolerations) || self.tolerations == oldSelf.tolerations)",message="tolerations are immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.nodeAffinity) == has(oldSelf.nodeAffinity) && (!has(self.nodeAffinity) || self.nodeAffinity == oldSelf.nodeAffinity)",message="nodeAffinity is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.topologySpread) == has(oldSelf.topologySpread) && (!has(self.topologySpread) || self.topologySpread == oldSelf.topologySpread)",message="topologySpread is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",message="labels are immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.annotations) == has(oldSelf.annotations) && (!has(self.annotations) || self.annotations == oldSelf.annotations)",message="annotations are immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",message="zone is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__)",message="namespace is immutable: roll out a new KubeVirtMachineTemplate instead"
// +kubebuilder:validation:XValidation:rule="has(self.priorityClassName) == has(oldSelf.priorityClassName) && (!has(self.priorityClassName) || self.priorityClassName == oldSelf.priorityClassName)",message="priorityClassName is immutable: roll out a new KubeVirtMachineTemplate instead"
type KubeVirtMachineSpec struct {
	// providerID is the identifier that the Node has, too, kubevirt://<VirtualMachine>. It is set by the provider; set it yourself
	// only to adopt a virtual machine of this machine that exists, as after a restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// credentialsSecretName is the Secret in this namespace whose key value holds a kubeconfig of the infrastructure cluster.
	// Without it the virtual machine is in the provider's own cluster, in the namespace of this object. May name another
	// Secret of the same cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// namespace is the namespace of the virtual machine in the infrastructure cluster that the Secret leads to; the namespace in
	// the kubeconfig does not count. Default: the namespace of this object. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// zone is the value of the label topology.kubernetes.io/zone of the nodes that the virtual machine may run on, unless the
	// Machine names a failure domain, which wins. Default: any. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Zone string `json:"zone,omitempty"`

	// architecture is that of the CPU: amd64, arm64 or s390x. Default amd64. Immutable.
	// +optional
	// +default="amd64"
	// +kubebuilder:validation:Enum=amd64;arm64;s390x
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="architecture is immutable: roll out a new KubeVirtMachineTemplate instead"
	Architecture string `json:"architecture,omitempty"`

	// instancetype is the instancetype with the size of the virtual machine, instead of cpu and memoryMiB. Immutable.
	// +optional
	Instancetype KubeVirtReference `json:"instancetype,omitempty,omitzero"`

	// preference is the preference for the devices, firmware and clock of the guest. Immutable.
	// +optional
	Preference KubeVirtReference `json:"preference,omitempty,omitzero"`

	// cpu are the CPUs of the virtual machine, unless it has an instancetype. Immutable.
	// +optional
	CPU KubeVirtCPU `json:"cpu,omitempty,omitzero"`

	// memoryMiB is the memory of the virtual machine in MiB, unless it has an instancetype. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=16777216
	MemoryMiB int32 `json:"memoryMiB,omitempty"`

	// rootDisk is the disk that the virtual machine boots from. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="rootDisk is immutable: roll out a new KubeVirtMachineTemplate instead"
	RootDisk KubeVirtRootDisk `json:"rootDisk,omitempty,omitzero"`

	// disks are further, empty disks. They are created and deleted with the virtual machine. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(d, d.name in ['root', 'bootstrap'])",message="root and bootstrap are the names of other disks"
	Disks []KubeVirtDisk `json:"disks,omitempty"`

	// networks are the networks of the virtual machine, the first one first. Default: the pod network, with the binding bridge.
	// Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(n, !has(n.networkAttachment)).size() <= 1",message="one network at most is the pod network: name a networkAttachment for the others"
	Networks []KubeVirtNetwork `json:"networks,omitempty"`

	// bootstrapDisk is how cloud-init gets the bootstrap data: NoCloud or ConfigDrive. Ignition gets it by ConfigDrive in either
	// case. Default NoCloud. Immutable.
	// +optional
	// +default="NoCloud"
	// +kubebuilder:validation:Enum=NoCloud;ConfigDrive
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="bootstrapDisk is immutable: roll out a new KubeVirtMachineTemplate instead"
	BootstrapDisk string `json:"bootstrapDisk,omitempty"`

	// evictionStrategy is what happens when the node of the infrastructure cluster is drained. External: the node waits, Ready of
	// this machine is False with the reason EvictionRequested, and a MachineHealthCheck can replace the Machine, which drains its
	// Node. LiveMigrate and LiveMigrateIfPossible: the virtual machine moves to another node, and the Node in it stays; if it
	// cannot, the node waits, or the virtual machine is stopped, respectively. None: it is stopped. Default External. Immutable.
	// +optional
	// +default="External"
	// +kubebuilder:validation:Enum=External;LiveMigrate;LiveMigrateIfPossible;None
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="evictionStrategy is immutable: roll out a new KubeVirtMachineTemplate instead"
	EvictionStrategy string `json:"evictionStrategy,omitempty"`

	// nodeSelector are labels of the nodes that the virtual machine may run on. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",message="a key is that of a label, of 317 characters at most"
	NodeSelector map[string]KubeVirtLabelValue `json:"nodeSelector,omitempty"`

	// nodeAffinity are requirements for, or preferences of, the nodes that the virtual machine runs on. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	NodeAffinity []KubeVirtNodeAffinity `json:"nodeAffinity,omitempty"`

	// tolerations are the taints that the virtual machine tolerates. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Tolerations []KubeVirtToleration `json:"tolerations,omitempty"`

	// topologySpread spreads the virtual machines of the same Cluster and MachineDeployment. Default: over nodes, as far as
	// possible. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	TopologySpread []KubeVirtTopologySpread `json:"topologySpread,omitempty"`

	// priorityClassName is the PriorityClass of the virtual machine in the infrastructure cluster. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// labels are put on the virtual machine and its Pod, beside the provider's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && !key.matches('(^|[.])(drover[.]io|kubevirt[.]io|cluster[.]x-k8s[.]io)/'))",message="a key has 317 characters at most, and those of drover.io, kubevirt.io and cluster.x-k8s.io are not yours"
	Labels map[string]KubeVirtLabelValue `json:"labels,omitempty"`

	// annotations are put on the Pod of the virtual machine, such as
	// kubevirt.io/allow-pod-bridge-network-live-migration. Immutable.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && !key.matches('(^|[.])(drover|hooks[.]kubevirt)[.]io/'))",message="a key has 317 characters at most; those of drover.io are not yours, and those of hooks.kubevirt.io run programs beside the virtual machine"
	Annotations map[string]KubeVirtAnnotationValue `json:"annotations,omitempty"`
}

// KubeVirtMachine is a virtual machine of KubeVirt.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubevirtmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns this KubeVirtMachine"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.instanceState",description="State of the virtual machine"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Ready"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",priority=10,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Instancetype",type="string",JSONPath=".spec.instancetype.name",priority=10,description="Requested instancetype"
type KubeVirtMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine should be.
	// +required
	Spec KubeVirtMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was observed.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetProviderID returns spec.providerID.
func (m *KubeVirtMachine) GetProviderID() string { return m.Spec.ProviderID }

// SetProviderID sets spec.providerID.
func (m *KubeVirtMachine) SetProviderID(id string) { m.Spec.ProviderID = id }

// GetStatus returns the status for reading and changing in place.
func (m *KubeVirtMachine) GetStatus() *MachineStatus { return &m.Status }

// KubeVirtMachineList is a list of KubeVirtMachines.
// +kubebuilder:object:root=true
type KubeVirtMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the KubeVirtMachines.
	Items []KubeVirtMachine `json:"items"`
}
