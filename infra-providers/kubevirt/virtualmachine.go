// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

const (
	noCloud     = "NoCloud"
	ignition    = "ignition"
	userDataKey = "userdata"
	// rootDisk and bootstrapDisk are names of disks.
	rootDisk, bootstrapDisk = "root", "bootstrap"
	// podNetwork is the name of the network without a spec.
	podNetwork = "default"
)

// objectMeta is the metadata of an object of a machine.
func objectMeta(id driver.Identity, namespace, name string) metav1.ObjectMeta {
	labels := map[string]string{driver.TagMachineUID: string(id.UID), driver.TagClusterUID: string(id.Owner.UID)}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: id.Tags()}
}

// newSecret returns the Secret with the bootstrap data.
func newSecret(id driver.Identity, namespace string, userData []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: objectMeta(id, namespace, vmName(id.UID)), Data: map[string][]byte{userDataKey: userData}}
}

// newVirtualMachine returns the VirtualMachine of a request, which its Secret owns.
func newVirtualMachine(req driver.CreateRequest[InstanceConfig], secret *corev1.Secret) *virtv1.VirtualMachine {
	spec := req.Config.Spec
	vm := &virtv1.VirtualMachine{ObjectMeta: objectMeta(req.Identity, secret.Namespace, secret.Name)}
	vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}}
	for key, value := range spec.Labels {
		vm.Labels[key] = string(value)
	}
	// A disk of a container image is empty after each start, and its bootstrap data cannot be used again.
	strategy := virtv1.RunStrategyAlways
	if spec.RootDisk.ContainerDisk.Image != "" {
		strategy = virtv1.RunStrategyOnce
	}
	vm.Spec.RunStrategy = &strategy
	if name := spec.Instancetype.Name; name != "" {
		vm.Spec.Instancetype = &virtv1.InstancetypeMatcher{Name: name, Kind: scoped(spec.Instancetype, "Instancetype")}
	}
	if name := spec.Preference.Name; name != "" {
		vm.Spec.Preference = &virtv1.PreferenceMatcher{Name: name, Kind: scoped(spec.Preference, "Preference")}
	}
	vm.Spec.Template = newTemplate(req, vm)
	return vm
}

// scoped returns the kind of an instancetype or a preference.
func scoped(of infrav1.KubeVirtReference, kind string) string {
	if of.Scope == "Namespace" {
		return "VirtualMachine" + kind
	}
	return "VirtualMachineCluster" + kind
}

// newTemplate returns what the virtual machine runs as. It adds the DataVolumes to the VirtualMachine.
func newTemplate(req driver.CreateRequest[InstanceConfig], vm *virtv1.VirtualMachine) *virtv1.VirtualMachineInstanceTemplateSpec {
	spec := req.Config.Spec
	template := &virtv1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{driver.TagMachineUID: string(req.Identity.UID)}, Annotations: map[string]string{},
	}}
	maps.Copy(template.ObjectMeta.Labels, req.Config.Group)
	for key, value := range spec.Labels {
		template.ObjectMeta.Labels[key] = string(value)
	}
	for key, value := range spec.Annotations {
		template.ObjectMeta.Annotations[key] = string(value)
	}
	template.Spec = virtv1.VirtualMachineInstanceSpec{
		Hostname:          req.Identity.Name,
		Architecture:      spec.Architecture,
		EvictionStrategy:  ptr.To(virtv1.EvictionStrategy(spec.EvictionStrategy)),
		PriorityClassName: spec.PriorityClassName,
		Domain: virtv1.DomainSpec{Devices: virtv1.Devices{
			LogSerialConsole: ptr.To(true), Rng: &virtv1.Rng{},
		}},
	}
	setSize(&template.Spec.Domain, spec)
	setScheduling(&template.Spec, req.Config)
	setNetworks(&template.Spec, spec.Networks)
	setDisks(vm, &template.Spec, req)
	return template
}

// setSize sets CPUs and memory, which an instancetype has otherwise.
func setSize(domain *virtv1.DomainSpec, spec infrav1.KubeVirtMachineSpec) {
	if spec.Instancetype.Name != "" {
		return
	}
	domain.CPU = &virtv1.CPU{
		Cores: uint32(spec.CPU.Cores), Sockets: uint32(max(1, spec.CPU.Sockets)), Threads: uint32(max(1, spec.CPU.Threads)), //nolint:gosec // the schema has limits
		Model: spec.CPU.Model, DedicatedCPUPlacement: ptr.Deref(spec.CPU.Dedicated, false),
	}
	domain.Memory = &virtv1.Memory{Guest: mebibytes(spec.MemoryMiB)}
}

func mebibytes(size int32) *resource.Quantity {
	return resource.NewQuantity(int64(size)<<20, resource.BinarySI)
}

// setNetworks sets the networks and their interfaces, which have the same names.
func setNetworks(spec *virtv1.VirtualMachineInstanceSpec, networks []infrav1.KubeVirtNetwork) {
	if len(networks) == 0 {
		networks = []infrav1.KubeVirtNetwork{{Name: podNetwork}}
	}
	for _, network := range networks {
		source := virtv1.NetworkSource{Pod: &virtv1.PodNetwork{}}
		if network.NetworkAttachment != "" {
			source = virtv1.NetworkSource{Multus: &virtv1.MultusNetwork{NetworkName: network.NetworkAttachment}}
		}
		nic := virtv1.Interface{Name: network.Name, Model: network.Model}
		switch network.Binding {
		case "masquerade":
			nic.Masquerade = &virtv1.InterfaceMasquerade{}
		case "sriov":
			nic.SRIOV = &virtv1.InterfaceSRIOV{}
		default:
			nic.Bridge = &virtv1.InterfaceBridge{}
		}
		spec.Networks = append(spec.Networks, virtv1.Network{Name: network.Name, NetworkSource: source})
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, nic)
	}
}

// setDisks sets the root disk, the one with the bootstrap data and the further ones, in this order, which the guest sees.
func setDisks(vm *virtv1.VirtualMachine, spec *virtv1.VirtualMachineInstanceSpec, req driver.CreateRequest[InstanceConfig]) {
	disk := func(name, bus string, source virtv1.VolumeSource) {
		device := virtv1.Disk{Name: name, Serial: name, DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBus(cmp.Or(bus, "virtio"))}}}
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, device)
		spec.Volumes = append(spec.Volumes, virtv1.Volume{Name: name, VolumeSource: source})
	}
	volume := func(name string, source cdiv1.DataVolumeSpec) virtv1.VolumeSource {
		template := virtv1.DataVolumeTemplateSpec{ObjectMeta: objectMeta(req.Identity, "", vm.Name+"-"+name), Spec: source}
		vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, template)
		return virtv1.VolumeSource{DataVolume: &virtv1.DataVolumeSource{Name: template.Name}}
	}
	root := req.Config.Spec.RootDisk
	if image := root.ContainerDisk; image.Image != "" {
		disk(rootDisk, root.Bus, virtv1.VolumeSource{ContainerDisk: &virtv1.ContainerDiskSource{
			Image: image.Image, ImagePullPolicy: corev1.PullPolicy(image.ImagePullPolicy), ImagePullSecret: image.ImagePullSecret,
		}})
	} else {
		disk(rootDisk, root.Bus, volume(rootDisk, newRootVolume(root, vm.Namespace)))
	}
	disk(bootstrapDisk, "", newBootstrapVolume(vm.Name, req))
	for _, further := range req.Config.Spec.Disks {
		source := cdiv1.DataVolumeSpec{Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}, Storage: newStorage(further.Storage)}
		disk(further.Name, further.Bus, volume(further.Name, source))
	}
}

// newBootstrapVolume returns the disk with the bootstrap data of a Secret.
func newBootstrapVolume(secret string, req driver.CreateRequest[InstanceConfig]) virtv1.VolumeSource {
	from := &corev1.LocalObjectReference{Name: secret}
	if req.Format == ignition || req.Config.Spec.BootstrapDisk != noCloud {
		return virtv1.VolumeSource{CloudInitConfigDrive: &virtv1.CloudInitConfigDriveSource{UserDataSecretRef: from}}
	}
	return virtv1.VolumeSource{CloudInitNoCloud: &virtv1.CloudInitNoCloudSource{UserDataSecretRef: from}}
}

// newRootVolume returns the DataVolume of the root disk.
func newRootVolume(root infrav1.KubeVirtRootDisk, namespace string) cdiv1.DataVolumeSpec {
	volume := cdiv1.DataVolumeSpec{Storage: newStorage(root.Storage)}
	switch from := root.Source; {
	case from.DataSource.Name != "":
		volume.SourceRef = &cdiv1.DataVolumeSourceRef{
			Kind: dataSources.Kind, Name: from.DataSource.Name, Namespace: ptr.To(cmp.Or(from.DataSource.Namespace, namespace)),
		}
	case from.PersistentVolumeClaim.Name != "":
		volume.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{
			Name: from.PersistentVolumeClaim.Name, Namespace: cmp.Or(from.PersistentVolumeClaim.Namespace, namespace),
		}}
	case from.Registry != "":
		registry := &cdiv1.DataVolumeSourceRegistry{URL: ptr.To(from.Registry)}
		if from.SecretName != "" {
			registry.SecretRef = ptr.To(from.SecretName)
		}
		if from.CertConfigMap != "" {
			registry.CertConfigMap = ptr.To(from.CertConfigMap)
		}
		volume.Source = &cdiv1.DataVolumeSource{Registry: registry}
	default:
		volume.Source = &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: from.HTTP, SecretRef: from.SecretName, CertConfigMap: from.CertConfigMap}}
	}
	return volume
}

func newStorage(storage infrav1.KubeVirtStorage) *cdiv1.StorageSpec {
	wanted := &cdiv1.StorageSpec{}
	if storage.SizeGiB > 0 {
		wanted.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", storage.SizeGiB))}
	}
	if storage.StorageClassName != "" {
		wanted.StorageClassName = ptr.To(storage.StorageClassName)
	}
	if storage.AccessMode != "" {
		wanted.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(storage.AccessMode)}
	}
	if storage.VolumeMode != "" {
		wanted.VolumeMode = ptr.To(corev1.PersistentVolumeMode(storage.VolumeMode))
	}
	return wanted
}
