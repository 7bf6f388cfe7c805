// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// maxUID is how many bytes a UID may have, which has 36. That of an account is kept.
const maxUID = 64

// AccountID implements driver.AccountIdentifier: the UID of the namespace, which is like no other anywhere. It must be that of the
// namespace that the driver was connected to first.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := d.api.Get(ctx, client.ObjectKey{Name: d.namespace}, namespace)
	switch {
	case isNotFound(err, "namespaces", d.namespace):
		return "", &driver.InvalidConfigurationError{Field: "spec.namespace", Err: fmt.Errorf("the infrastructure cluster has no namespace %q", d.namespace)}
	case err != nil:
		return "", toError(err)
	case namespace.UID == "" || len(namespace.UID) > maxUID:
		return "", errors.New("the infrastructure cluster returned a namespace without a valid UID")
	}
	found := "kubevirt/" + string(namespace.UID)
	d.account.CompareAndSwap(nil, &found)
	if first := *d.account.Load(); first != found {
		return "", &driver.AccountMismatchError{Pinned: first, Connected: found, Source: "a namespace that was deleted and created again"}
	}
	return found, nil
}

// verifyAccount fails with AccountMismatchError if the namespace is another one of the same name than before, in which nothing of the
// first one is found. What was in a namespace that does not exist is gone.
func (d *Driver) verifyAccount(ctx context.Context) error {
	_, err := d.AccountID(ctx)
	if driver.IsInvalidConfiguration(err) {
		return nil
	}
	return err
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	spec := config.Spec
	cpus, memory := int64(spec.CPU.Cores)*int64(max(1, spec.CPU.Sockets))*int64(max(1, spec.CPU.Threads)), *mebibytes(spec.MemoryMiB)
	if spec.Instancetype.Name != "" {
		found, err := d.instancetype(ctx, config)
		if err != nil {
			return driver.Capacity{}, err
		}
		cpus, memory = int64(found.CPU.Guest), found.Memory.Guest
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: memory}
	if size := spec.RootDisk.Storage.SizeGiB; size > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(size)<<30, resource.BinarySI)
	}
	return driver.Capacity{Capacity: capacity, Architecture: spec.Architecture, OperatingSystem: "linux"}, nil
}

func (d *Driver) instancetype(ctx context.Context, config InstanceConfig) (instancetypev1.VirtualMachineInstancetypeSpec, error) {
	name := config.Spec.Instancetype.Name
	var found client.Object
	resource, key, spec := "virtualmachineclusterinstancetypes", client.ObjectKey{Name: name}, func() instancetypev1.VirtualMachineInstancetypeSpec {
		return found.(*instancetypev1.VirtualMachineClusterInstancetype).Spec
	}
	found = &instancetypev1.VirtualMachineClusterInstancetype{}
	if config.Spec.Instancetype.Scope == "Namespace" {
		resource, key.Namespace, found = "virtualmachineinstancetypes", d.namespace, &instancetypev1.VirtualMachineInstancetype{}
		spec = func() instancetypev1.VirtualMachineInstancetypeSpec {
			return found.(*instancetypev1.VirtualMachineInstancetype).Spec
		}
	}
	err := d.api.Get(ctx, key, found)
	switch {
	case isNotFound(err, resource, name):
		return instancetypev1.VirtualMachineInstancetypeSpec{}, &driver.InvalidConfigurationError{Field: "spec.instancetype", Err: fmt.Errorf("%s %q does not exist", resource, name)}
	case err != nil:
		return instancetypev1.VirtualMachineInstancetypeSpec{}, toError(err)
	}
	return spec(), nil
}

// FindImage implements driver.ImageFinder. What a registry or a web server has is found out by the import only, or by the node
// that pulls it.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	from := config.Spec.RootDisk.Source
	switch {
	case from.DataSource.Name != "":
		return d.volume(ctx, dataSources, "spec.rootDisk.source.dataSource", cmp.Or(from.DataSource.Namespace, d.namespace), from.DataSource.Name)
	case from.PersistentVolumeClaim.Name != "":
		claims := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
		return d.volume(ctx, claims, "spec.rootDisk.source.persistentVolumeClaim", cmp.Or(from.PersistentVolumeClaim.Namespace, d.namespace), from.PersistentVolumeClaim.Name)
	default:
		return driver.Image{ID: cmp.Or(config.Spec.RootDisk.ContainerDisk.Image, from.Registry, from.HTTP)}, ctx.Err()
	}
}

// volume finds an object that a disk is created from.
func (d *Driver) volume(ctx context.Context, kind schema.GroupVersionKind, field, namespace, name string) (driver.Image, error) {
	if err := d.require(ctx, kind, field, client.ObjectKey{Namespace: namespace, Name: name}); err != nil {
		return driver.Image{}, err
	}
	return driver.Image{ID: kind.Kind + " " + namespace + "/" + name}, nil
}

// require fails with InvalidConfigurationError for the field if an object does not exist.
func (d *Driver) require(ctx context.Context, kind schema.GroupVersionKind, field string, key client.ObjectKey) error {
	mapping, err := d.api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err = d.api.Get(ctx, key, found)
	if isNotFound(err, mapping.Resource.Resource, key.Name) {
		return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf("%s %q does not exist", kind.Kind, strings.TrimPrefix(key.String(), "/"))}
	}
	return toError(err)
}

// requireAll finds everything that a spec names. KubeVirt's admission accepts what does not exist.
func (d *Driver) requireAll(ctx context.Context, spec infrav1.KubeVirtMachineSpec) error {
	for _, named := range []struct {
		of          infrav1.KubeVirtReference
		kind, field string
	}{{spec.Instancetype, "Instancetype", "spec.instancetype"}, {spec.Preference, "Preference", "spec.preference"}} {
		if named.of.Name == "" {
			continue
		}
		key := client.ObjectKey{Name: named.of.Name}
		if named.of.Scope == "Namespace" {
			key.Namespace = d.namespace
		}
		if err := d.require(ctx, instancetypev1.SchemeGroupVersion.WithKind(scoped(named.of, named.kind)), named.field, key); err != nil {
			return err
		}
	}
	return nil
}

// Tag implements driver.Tagger. The VirtualMachine is last, because its tags decide whether Tag is complete.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	vm, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	id.UID = identity(vm).UID
	for object, err := range d.attached(ctx, client.MatchingLabels{driver.TagMachineUID: string(id.UID)}) {
		if err != nil {
			return err
		}
		if err := d.setOwner(ctx, object, id); err != nil {
			return err
		}
	}
	return d.setOwner(ctx, vm, id)
}

// setOwner writes the UID of the Cluster into the tags of the object that was read, and of none that has its name by now, if
// it is the machine's and has another one.
func (d *Driver) setOwner(ctx context.Context, object client.Object, id driver.Identity) error {
	found := identity(object)
	ofMachine := id.Check(found) == nil
	if !ofMachine || found.Owner.UID == id.Owner.UID {
		return nil
	}
	tags := map[string]string{driver.TagClusterUID: string(id.Owner.UID)}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "labels": tags, "annotations": tags}})
	if err != nil {
		return err
	}
	return toError(d.api.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
}

// Restart implements driver.Restarter: a reset, with which the guest keeps its disks, also those of a container image. It
// needs KubeVirt 1.6.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if _, err := driver.RequireRunning(found, err); err != nil {
		return err
	}
	return toError(d.raw.Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces", d.namespace, "virtualmachineinstances", found.ID, "reset").Do(ctx).Error())
}

// consoleContainer is the container of a virtual machine's Pod that writes its serial console into its log.
const consoleContainer = "guest-console-log"

// Console implements driver.ConsoleReader, by the log of the container to which KubeVirt copies the serial console.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	vm, err := d.find(ctx, id)
	if err != nil {
		return nil, err
	}
	running, err := d.run(ctx, vm)
	if err != nil || running == nil {
		return nil, err
	}
	of := toObserved(running)
	for pod, err := range d.podsOf(ctx, running) {
		if err != nil {
			return nil, err
		}
		// It is an init container that does not end.
		all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		hasConsole := slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool {
			return c.Name == consoleContainer && (c.State.Running != nil || c.State.Terminated != nil)
		})
		if hasConsole && of.runsIn(pod) {
			return d.log(ctx, pod.Name)
		}
	}
	return nil, nil
}

// consoleLines is how many lines are read: with fewer than 32 bytes in each, it is less than could be.
const consoleLines = driver.MaxConsole / 32

// log returns the end of the log. A line may be as long as a guest writes it, so the beginning of what is read is dropped.
func (d *Driver) log(ctx context.Context, pod string) (output []byte, err error) {
	stream, err := d.raw.Get().AbsPath("/api/v1/namespaces", d.namespace, "pods", pod, "log").
		Param("container", consoleContainer).Param("tailLines", strconv.Itoa(consoleLines)).Stream(ctx)
	if err != nil {
		return nil, toError(err)
	}
	defer stream.Close() //nolint:errcheck // it was read, or failed before
	for chunk := make([]byte, 32<<10); err == nil; {
		var n int
		n, err = stream.Read(chunk)
		output = driver.LastOutput(append(output, chunk[:n]...))
	}
	if !errors.Is(err, io.EOF) {
		return nil, toError(err)
	}
	return output, nil
}

// AttachedObjects implements driver.AttachedObjectLister: Secrets with bootstrap data, and DataVolumes.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for object, err := range d.attached(ctx, ofOwner(owner)) {
			if err != nil {
				yield(driver.AttachedObject{}, err)
				return
			}
			id := identity(object)
			found := driver.AttachedObject{
				Kind: object.GetObjectKind().GroupVersionKind().Kind, ID: object.GetName(), Identity: id, Created: object.GetCreationTimestamp().Time,
				// What was copied with its labels is not deleted by Delete.
				Copy: !isPartOf(id, object),
			}
			if owner.Selects(id.Owner) && !yield(found, nil) {
				return
			}
		}
	}
}

// attached yields the metadata of Secrets and DataVolumes, and a failure last.
func (d *Driver) attached(ctx context.Context, which client.ListOption) iter.Seq2[client.Object, error] {
	return func(yield func(client.Object, error) bool) {
		for _, kind := range []schema.GroupVersionKind{dataVolumes, corev1.SchemeGroupVersion.WithKind("Secret")} {
			for object, err := range d.objects(ctx, kind, which) {
				if !yield(object, err) || err != nil {
					return
				}
			}
		}
	}
}

// objects yields the metadata of the objects of a kind. A cluster without CDI has no DataVolumes.
func (d *Driver) objects(ctx context.Context, kind schema.GroupVersionKind, which client.ListOption) iter.Seq2[client.Object, error] {
	return func(yield func(client.Object, error) bool) {
		into := &metav1.PartialObjectMetadataList{}
		into.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		for object, err := range list(ctx, d, into, which) {
			if err != nil && kind == dataVolumes && errors.Is(err, errUnknownKind) {
				return
			}
			if object != nil {
				object.GetObjectKind().SetGroupVersionKind(kind)
			}
			if !yield(object, err) {
				return
			}
		}
	}
}
