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

// AccountID implements driver.AccountIdentifier: the project, by the ID of a placement group of a fixed name in it.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	id, err := d.catalog.Marker(ctx)
	if err == nil {
		return "hetzner/" + strconv.FormatInt(id, 10), nil
	}
	err = d.passing(err)
	if driver.IsQuotaExceeded(err) {
		// It is the quota of placement groups: no other configuration of the machine helps.
		err = errors.New(err.Error())
	}
	return "", fmt.Errorf("placement group %q, which identifies the project: %w", catalog.MarkerName, err)
}

// Restart implements driver.Restarter. A server that is being worked on is locked, which passes.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	server, found, err := d.have(ctx, id)
	if _, err := driver.Restartable(found, err); err != nil {
		return err
	}
	_, _, err = d.servers.Reset(ctx, server)
	return d.passing(err)
}

// Tag implements driver.Tagger. The server comes last: what it says counts, so that a failure before is made
// good by the next attempt. An update replaces all labels, so those of others are part of it.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	server, found, err := d.have(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	if err := d.volumes.Tag(ctx, id); err != nil {
		return d.passing(err)
	}
	_, _, err = d.servers.Update(ctx, server, hcloud.ServerUpdateOpts{Labels: volume.Labels(server.Labels, id)})
	return d.passing(err)
}

// Remains implements driver.Remainder.
func (d *Driver) Remains(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Remain, error] {
	return func(yield func(driver.Remain, error) bool) {
		for found, err := range d.volumes.List(ctx, selector(owner)) {
			if err != nil {
				yield(driver.Remain{}, d.passing(err))
				return
			}
			if !yield(volume.Remain(found), nil) {
				return
			}
		}
	}
}

// Size implements driver.Sizer.
func (d *Driver) Size(ctx context.Context, config Config) (driver.Size, error) {
	found, err := d.catalog.ServerType(ctx, config.ServerType)
	if err != nil {
		return driver.Size{}, toError(err, config, d.now())
	}
	return driver.Size{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(found.Cores), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(int64(float64(found.Memory)*(1<<30)), resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(found.Disk)<<30, resource.BinarySI),
		},
		Architecture:    architectures[found.Architecture],
		OperatingSystem: "linux",
	}, nil
}

// FindImage implements driver.ImageFinder. The server type chooses among images of one name, so that an image for
// another architecture is one that does not exist.
func (d *Driver) FindImage(ctx context.Context, config Config) (driver.Image, error) {
	_, found, err := d.choose(ctx, config)
	if err != nil {
		return driver.Image{}, toError(err, config, d.now())
	}
	return driver.Image{ID: strconv.FormatInt(found.ID, 10), Architecture: architectures[found.Architecture]}, nil
}
