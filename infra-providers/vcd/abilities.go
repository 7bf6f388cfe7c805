// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/vmware/go-vcloud-director/v3/types/v56"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
)

// AccountID implements driver.AccountIdentifier. It is the URNs of the organization and the VDC.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	found, err := d.findPlace(ctx)
	if err != nil {
		return "", err
	}
	return organizationURN + found.organization + "/" + vdcURN + found.vdc, nil
}

// architecture is that of all virtual machines: those of vSphere.
const architecture = "amd64"

// Capacity implements driver.CapacityProvider. It is that of the spec, and else of the sizing policy.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	cpus, memory := int(config.Spec.CPUs), config.Spec.MemoryMB
	sizing, err := d.policy(ctx, "spec.sizingPolicy", config.Spec.SizingPolicy, true)
	if err != nil {
		return driver.Capacity{}, err
	}
	if sizing != nil {
		cpus, memory = cmp.Or(cpus, sizing.CPUCount), cmp.Or(memory, sizing.Memory)
	}
	if cpus == 0 || memory == 0 {
		return driver.Capacity{}, driver.InvalidField("spec.cpus", "the sizing policy leaves the size to the template: set cpus and memoryMB")
	}
	offered := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
	if size := config.Spec.DiskSizeGB; size != 0 {
		offered[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(size<<30, resource.BinarySI)
	}
	return driver.Capacity{Capacity: offered, Architecture: architecture, OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder. It is the virtual machine of the template.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.template(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, err
	}
	return driver.Image{ID: idOf(found), Architecture: architecture}, nil
}

// Tag implements driver.Tagger. Director writes the metadata in a task; a call before its end fails with
// UnfinishedError.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	if found.Identity.Owner == id.Owner {
		return nil
	}
	if _, err := d.client.start(ctx, http.MethodPost, vmPath(found.ID)+"/metadata", types.MimeMetaData, metadata(marks(id))); err != nil {
		return fmt.Errorf("setting the metadata: %w", err)
	}
	return nil
}

// Restart implements driver.Restarter. It resets the virtual machine.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.client.start(ctx, http.MethodPost, vmPath(found.ID)+"/power/action/reset", "", nil)
	if isAbsent(err) {
		return cmp.Or(d.confirm(ctx, found.ID, err), error(&driver.NotFoundError{What: "virtual machine " + found.ID}))
	}
	return err
}
