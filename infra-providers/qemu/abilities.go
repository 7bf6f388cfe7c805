// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/host"
)

// AccountID implements driver.AccountIdentifier. It is the host's state directory.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	return "qemu/" + d.api.Name(), ctx.Err()
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(_ context.Context, config InstanceConfig) (driver.Capacity, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(config.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(config.MemoryMiB*mebibyte, resource.BinarySI),
	}
	if config.DiskBytes > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(config.DiskBytes, resource.BinarySI)
	}
	return driver.Capacity{Capacity: capacity, Architecture: config.Architecture, OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder. It is a file of the host's folder, or a URL, which is not requested. The
// architecture of a file is unknown.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	if err := ctx.Err(); err != nil {
		return driver.Image{}, err
	}
	found, err := d.api.Image(config)
	if err != nil {
		return driver.Image{}, toError(err)
	}
	return driver.Image{ID: found}, nil
}

// Notify implements driver.Notifier.
func (d *Driver) Notify(changed func(driver.Identity)) {
	d.api.Notify(func(m host.Machine) { changed(d.toInstance(m).Identity) })
}

// Tag implements driver.Tagger.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	exists, err := d.api.Retag(found.ID, id.Tags())
	if err == nil && !exists {
		err = &driver.NotFoundError{What: "machine " + found.ID}
	}
	return err
}

// Restart implements driver.Restarter.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	return toError(d.api.Restart(ctx, found.ID))
}

// Console implements driver.ConsoleReader. The output is moved there from QEMU's memory every few seconds.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return statedir.ReadEnd(d.api.Console(found.ID), driver.MaxConsole)
}
