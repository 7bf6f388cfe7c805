// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/catalog"
	"drover.io/infra-providers/hetzner/volume"
)

// architectures maps the cloud's names to Kubernetes' names.
var architectures = map[hcloud.Architecture]string{hcloud.ArchitectureX86: "amd64", hcloud.ArchitectureARM: "arm64"}

// AccountID implements driver.AccountIdentifier. It is the project, identified by the ID of a placement group with a
// fixed name in it.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	id, err := d.catalog.Marker(ctx)
	if err == nil {
		return "hetzner/" + strconv.FormatInt(id, 10), nil
	}
	err = d.toRetryableError(err)
	if driver.IsQuotaExceeded(err) {
		// It is the quota of placement groups, which is independent of the configuration of the machine.
		err = errors.New(err.Error())
	}
	return "", fmt.Errorf("placement group %q, which identifies the project: %w", catalog.MarkerName, err)
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	found, err := d.catalog.ServerType(ctx, config.ServerType)
	if err != nil {
		return driver.Capacity{}, toError(err, config, d.clock.Now())
	}
	return driver.Capacity{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(found.Cores), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(int64(float64(found.Memory)*(1<<30)), resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(found.Disk)<<30, resource.BinarySI),
		},
		Architecture:    architectures[found.Architecture],
		OperatingSystem: "linux",
	}, nil
}

// FindImage implements driver.ImageFinder. Images of several architectures may have one name; the one for the
// architecture of the server type counts, and no other exists for it.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	_, found, err := d.findTypeAndImage(ctx, config)
	if err != nil {
		return driver.Image{}, toError(err, config, d.clock.Now())
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The server is labelled last, because its labels decide whether Tag is complete: after a
// failure the next attempt repeats all of it. An update replaces all labels, so it includes the user's.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	server, found, err := d.get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	if err := d.volumes.Tag(ctx, id); err != nil {
		return d.toRetryableError(err)
	}
	_, _, err = d.api.Update(ctx, server, hcloud.ServerUpdateOpts{Labels: volume.Labels(server.Labels, id)})
	return d.toRetryableError(err)
}

// Restart implements driver.Restarter. A server is locked during an action, so Restart may fail with a transient error.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	server, found, err := d.get(ctx, id)
	if _, err := driver.RequireRunning(found, err); err != nil {
		return err
	}
	_, _, err = d.api.Reset(ctx, server)
	return d.toRetryableError(err)
}

// AttachedObjects implements driver.AttachedObjectLister.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for found, err := range d.volumes.List(ctx, toSelector(owner)) {
			if err != nil {
				yield(driver.AttachedObject{}, d.toRetryableError(err))
				return
			}
			if !yield(volume.AttachedObject(found), nil) {
				return
			}
		}
	}
}
