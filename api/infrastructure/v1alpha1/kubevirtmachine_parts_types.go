// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// KubeVirtReference names an instancetype, or a preference.
type KubeVirtReference struct {
	// name is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// scope is Cluster for a VirtualMachineClusterInstancetype or VirtualMachineClusterPreference, or Namespace for one in the
	// namespace of the virtual machine. Default Cluster.
	// +optional
	// +default="Cluster"
	// +kubebuilder:validation:Enum=Cluster;Namespace
	Scope string `json:"scope,omitempty"`
}

// KubeVirtCPU are the CPUs of a virtual machine: sockets times cores times threads.
type KubeVirtCPU struct {
	// cores is the number of cores of each socket.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Cores int32 `json:"cores,omitempty"`

	// sockets is the number of sockets. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Sockets int32 `json:"sockets,omitempty"`

	// threads is the number of threads of each core. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Threads int32 `json:"threads,omitempty"`

	// model is the CPU model, such as host-passthrough. Default: that of KubeVirt.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Model string `json:"model,omitempty"`

	// dedicated reserves whole CPUs of the node for the virtual machine. Default false.
	// +optional
	Dedicated *bool `json:"dedicated,omitempty"`
}

// KubeVirtRootDisk is either an image that is pulled to the node, which is empty again after each start, or a volume.
// +kubebuilder:validation:XValidation:rule="has(self.containerDisk) != has(self.source)",message="set either containerDisk or source"
// +kubebuilder:validation:XValidation:rule="has(self.source) || !has(self.storage)",message="storage is that of a source"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || has(self.source.dataSource) || has(self.source.persistentVolumeClaim) || has(self.storage) && has(self.storage.sizeGiB)",message="storage.sizeGiB is required with registry and http: CDI does not know the size of what it imports"
type KubeVirtRootDisk struct {
	// containerDisk is an image in a registry that is pulled to the node, as those of KubeVirt's containerdisks. What is written
	// to it is lost when the virtual machine stops, so such a virtual machine is started once: when it ends, it is Stopped and
	// its Machine has to be replaced.
	// +optional
	ContainerDisk KubeVirtContainerDisk `json:"containerDisk,omitempty,omitzero"`

	// source is what a DataVolume is created from, which is deleted with the virtual machine.
	// +optional
	Source KubeVirtDiskSource `json:"source,omitempty,omitzero"`

	// storage is that of the DataVolume.
	// +optional
	Storage KubeVirtStorage `json:"storage,omitempty,omitzero"`

	// bus is virtio, scsi or sata. Default virtio.
	// +optional
	// +default="virtio"
	// +kubebuilder:validation:Enum=virtio;scsi;sata
	Bus string `json:"bus,omitempty"`
}

// KubeVirtContainerDisk is a disk in a container image.
type KubeVirtContainerDisk struct {
	// image is the container image, such as quay.io/containerdisks/ubuntu:24.04.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imagePullPolicy is Always, IfNotPresent or Never. Default: Always for the tag latest, otherwise IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy string `json:"imagePullPolicy,omitempty"`

	// imagePullSecret is a Secret in the namespace of the virtual machine with the credentials of the registry.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImagePullSecret string `json:"imagePullSecret,omitempty"`
}

// KubeVirtDiskSource is what a DataVolume is created from: one of registry, http, dataSource and persistentVolumeClaim.
// +kubebuilder:validation:XValidation:rule="[has(self.registry), has(self.http), has(self.dataSource), has(self.persistentVolumeClaim)].filter(set, set).size() == 1",message="set one of registry, http, dataSource and persistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="has(self.registry) || has(self.http) || !has(self.secretName) && !has(self.certConfigMap)",message="secretName and certConfigMap are those of registry and http"
type KubeVirtDiskSource struct {
	// registry is the URL of a container image with a disk, such as docker://quay.io/containerdisks/ubuntu:24.04.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(docker|oci-archive)://.`
	Registry string `json:"registry,omitempty"`

	// http is the URL of an image, which may be compressed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://.`
	HTTP string `json:"http,omitempty"`

	// dataSource is a DataSource of CDI, such as one of a DataImportCron.
	// +optional
	DataSource KubeVirtVolumeReference `json:"dataSource,omitempty,omitzero"`

	// persistentVolumeClaim is a PersistentVolumeClaim to clone.
	// +optional
	PersistentVolumeClaim KubeVirtVolumeReference `json:"persistentVolumeClaim,omitempty,omitzero"`

	// secretName is a Secret in the namespace of the virtual machine with the credentials for registry or http.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// certConfigMap is a ConfigMap in the namespace of the virtual machine with the certificates of the authority.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CertConfigMap string `json:"certConfigMap,omitempty"`
}

// KubeVirtVolumeReference names a DataSource or a PersistentVolumeClaim.
type KubeVirtVolumeReference struct {
	// name is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// namespace is its namespace. Default: that of the virtual machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// KubeVirtStorage is what a DataVolume requests. What is not set is chosen by CDI's StorageProfile.
// +kubebuilder:validation:MinProperties=1
type KubeVirtStorage struct {
	// sizeGiB is the size in GiB. Required with registry and http. Default: that of the source.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB int32 `json:"sizeGiB,omitempty"`

	// storageClassName is the StorageClass. Default: that of the infrastructure cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`

	// accessMode is ReadWriteOnce, or ReadWriteMany as live migration needs. Default: that of the StorageProfile.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode string `json:"accessMode,omitempty"`

	// volumeMode is Block or Filesystem. Default: that of the StorageProfile.
	// +optional
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode string `json:"volumeMode,omitempty"`
}

// KubeVirtDisk is an empty disk.
// +kubebuilder:validation:XValidation:rule="has(self.storage.sizeGiB)",message="storage.sizeGiB is required"
type KubeVirtDisk struct {
	// name is the name of the disk, which is its serial number in the guest, too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// storage is that of the DataVolume.
	// +required
	Storage KubeVirtStorage `json:"storage,omitempty,omitzero"`

	// bus is virtio, scsi or sata. Default virtio.
	// +optional
	// +default="virtio"
	// +kubebuilder:validation:Enum=virtio;scsi;sata
	Bus string `json:"bus,omitempty"`
}

// KubeVirtNetwork is a network of a virtual machine.
type KubeVirtNetwork struct {
	// name is the name of the interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// networkAttachment is the NetworkAttachmentDefinition of Multus, as name or namespace/name. Without it the network is the
	// pod network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	NetworkAttachment string `json:"networkAttachment,omitempty"`

	// binding is bridge, masquerade or sriov. With masquerade all Nodes have the same address inside, so that most pod networks
	// do not work between them. Default bridge.
	// +optional
	// +default="bridge"
	// +kubebuilder:validation:Enum=bridge;masquerade;sriov
	Binding string `json:"binding,omitempty"`

	// model is the model of the network card. Default virtio.
	// +optional
	// +kubebuilder:validation:Enum=virtio;e1000;e1000e;rtl8139
	Model string `json:"model,omitempty"`
}

// KubeVirtNodeAffinity is a requirement for the nodes, or with a weight a preference.
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == has(self.values)",message="In and NotIn need values, and the others have none"
type KubeVirtNodeAffinity struct {
	// key is the label of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Key string `json:"key,omitempty"`

	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator,omitempty"`

	// values are those of the label.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Values []string `json:"values,omitempty"`

	// weight makes it a preference of this weight, from 1 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight,omitempty"`
}

// KubeVirtToleration is a taint that is tolerated.
// +kubebuilder:validation:MinProperties=1
type KubeVirtToleration struct {
	// key is that of the taint. Default: all, with the operator Exists.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Key string `json:"key,omitempty"`

	// operator is Equal or Exists. Default Equal.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator string `json:"operator,omitempty"`

	// value is that of the taint.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect is NoSchedule, PreferNoSchedule or NoExecute. Default: all.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
}

// KubeVirtTopologySpread is a domain over which virtual machines are spread.
type KubeVirtTopologySpread struct {
	// topologyKey is the label of nodes whose values are the domains, such as topology.kubernetes.io/zone.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey,omitempty"`

	// maxSkew is the largest difference between two domains. Default 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable is ScheduleAnyway or DoNotSchedule. Default ScheduleAnyway.
	// +optional
	// +default="ScheduleAnyway"
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	WhenUnsatisfiable string `json:"whenUnsatisfiable,omitempty"`
}

// KubeVirtLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type KubeVirtLabelValue string

// KubeVirtAnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=1024
type KubeVirtAnnotationValue string
