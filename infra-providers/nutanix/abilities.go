// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/prism"
	"drover.io/infra-providers/nutanix/request"
)

// AccountID implements driver.AccountIdentifier. It is the UUID of the cluster that Prism Central itself is.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	clusters, err := d.lookup.Clusters(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the clusters: %w", toError(err))
	}
	return d.identify(clusters)
}

// verifyAccount fails with AccountMismatchError if another Prism Central answers than before, such as one that was deployed anew at
// the same address: what is in the one is not found in the other. It reads without the cache.
func (d *Driver) verifyAccount(ctx context.Context) error {
	clusters, err := d.lookup.ReadClusters(ctx)
	if err != nil {
		return fmt.Errorf("reading the clusters: %w", toError(err))
	}
	_, err = d.identify(clusters)
	return err
}

// identify returns the UUID of Prism Central, which must be the one that the driver was connected to first: its requests have no
// session that another one would refuse.
func (d *Driver) identify(clusters []request.Cluster) (string, error) {
	var found string
	for _, cluster := range clusters {
		if !cluster.PrismCentral {
			continue
		}
		if found != "" {
			return "", errors.New("reading the clusters: several are Prism Central")
		}
		found = cluster.ID
	}
	if !request.IsUUID(found) {
		return "", &driver.UnauthorizedError{Err: errors.New("no cluster is Prism Central: the endpoint is that of a Prism Element, or the credentials may not read the cluster of Prism Central")}
	}
	d.account.CompareAndSwap(nil, &found)
	if first := *d.account.Load(); first != found {
		return "", &driver.AccountMismatchError{Pinned: first, Connected: found, Source: "the endpoint of its credentials"}
	}
	return found, nil
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	image, err := d.lookup.Image(ctx, config.Spec.Image)
	if err != nil {
		return driver.Capacity{}, toError(err)
	}
	cluster, err := d.lookup.Cluster(ctx, config.Spec.Cluster)
	if err != nil {
		return driver.Capacity{}, toError(err)
	}
	spec := config.Spec
	disk := image.Bytes
	if spec.SystemDisk.SizeGiB != nil {
		disk = *spec.SystemDisk.SizeGiB << 30
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(spec.VCPUSockets)*int64(ptr.Deref(spec.VCPUsPerSocket, 1)), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(spec.MemoryMiB<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
	}
	for _, gpu := range spec.GPUs {
		if name, ok := gpuResources[gpu.Vendor]; ok {
			count := list[name]
			count.Add(*resource.NewQuantity(1, resource.DecimalSI))
			list[name] = count
		}
	}
	return driver.Capacity{Capacity: list, Architecture: cluster.Architecture, OperatingSystem: "linux"}, nil
}

// gpuResources are the resources of the device plugins.
var gpuResources = map[string]corev1.ResourceName{"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}

// FindImage implements driver.ImageFinder. Prism Central reports no architecture of images.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec.Image)
	if err != nil {
		return driver.Image{}, toError(err)
	}
	return driver.Image{ID: found.ID}, nil
}

// Tag implements driver.Tagger. The owner is in the description of the virtual machine.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.found(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.instance.Identity.UID
	description := request.Describe(id)
	if ptr.Deref(found.read.Description, "") == description {
		return nil
	}
	key := "tag/" + found.instance.ID + "/" + string(id.Owner.UID)
	if tagging, err := d.isChanging(ctx, key); err != nil || tagging {
		d.changes.Delete(key) // it is requested again if the description is still another one by then
		return err
	}
	if failed, ok := d.failures.Get(key); ok {
		d.failures.Delete(key)
		return fmt.Errorf("changing the description: %s", failed.reason)
	}
	found.read.Description = &description
	task, err := d.prism.UpdateVM(ctx, found.instance.ID, found.read, found.etag, randomUUID(uuid.New()))
	if err != nil {
		return toError(err)
	}
	d.begin(key, task)
	return nil
}

// found returns the virtual machine of an identity.
func (d *Driver) found(ctx context.Context, id driver.Identity) (virtualMachine, error) {
	all, err := d.find(ctx, id)
	if err != nil {
		return virtualMachine{}, err
	}
	if len(all) == 0 {
		return virtualMachine{}, &driver.NotFoundError{What: fmt.Sprintf("virtual machine of %q", id.Name)}
	}
	_, err = id.Checked(all[0].instance)
	return all[0], err
}

// Restart implements driver.Restarter. It resets the virtual machine.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := d.found(ctx, id)
	if err != nil {
		return err
	}
	if _, err := driver.RequireRunning(found.instance, nil); err != nil {
		return err
	}
	_, err = d.prism.Reset(ctx, found.instance.ID, found.etag, randomUUID(uuid.New()))
	if prism.IsNotFound(err) {
		return &driver.NotFoundError{What: "virtual machine " + found.instance.ID}
	}
	return toError(err)
}
