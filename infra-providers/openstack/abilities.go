// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// Restart implements driver.Restarter. Nova's hard reboot also starts a server that is off, so one that somebody
// stops between the read and the reboot is started again.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.Restartable(d.Get(ctx, id))
	if err != nil {
		return err
	}
	services, err := d.services(ctx)
	if err != nil {
		return err
	}
	err = servers.Reboot(ctx, services.Compute, found.ID, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr()
	if access.Missing(err) {
		return &driver.NotFoundError{What: "server of " + id.Name}
	}
	return toError(err, "", "")
}

// Tag implements driver.Tagger. The server comes last: what it says counts, so that a failure before is made
// good by the next attempt. Nova takes metadata only of a server that is neither being made nor in error. A
// server group keeps its name.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	services, err := d.services(ctx)
	if err != nil {
		return err
	}
	now := driver.Identity{UID: found.Identity.UID, Name: found.Identity.Name, Owner: id.Owner}
	for _, things := range attachments.Kinds(services) {
		if err := things.Tag(ctx, now); err != nil {
			return toError(err, "", "")
		}
	}
	_, err = servers.UpdateMetadata(ctx, services.Compute, found.ID, servers.MetadataOpts(attachments.Tags(now))).Extract()
	if access.Missing(err) {
		return &driver.NotFoundError{What: "server of " + id.Name}
	}
	return toError(err, "", "")
}

// Remains implements driver.Remainder.
func (d *Driver) Remains(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Remain, error] {
	return func(yield func(driver.Remain, error) bool) {
		services, err := d.services(ctx)
		if err != nil {
			yield(driver.Remain{}, err)
			return
		}
		for _, things := range attachments.Kinds(services) {
			all, err := things.Remains(ctx)
			if err != nil {
				yield(driver.Remain{}, toError(err, "", ""))
				return
			}
			for _, thing := range all {
				if (owner.UID == "" || thing.Identity.Owner.UID == owner.UID) && !yield(thing, nil) {
					return
				}
			}
		}
	}
}

// architectures are Kubernetes' names for what images call their architecture.
var architectures = map[string]string{
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x",
}

// FindImage implements driver.ImageFinder. Images tell their architecture only where somebody gave them that
// property.
func (d *Driver) FindImage(ctx context.Context, config Config) (driver.Image, error) {
	services, err := d.services(ctx)
	if err != nil {
		return driver.Image{}, err
	}
	found, err := lookup.Image(ctx, services.Image, config.Spec.Image)
	if err != nil {
		return driver.Image{}, toError(fmt.Errorf("looking up image: %w", err), "", "")
	}
	return driver.Image{ID: found.ID, Architecture: architectures[lookup.Property(found, "architecture")]}, nil
}

// Size implements driver.Sizer from the flavor, the root volume and the image's properties.
func (d *Driver) Size(ctx context.Context, config Config) (driver.Size, error) {
	services, err := d.services(ctx)
	if err != nil {
		return driver.Size{}, err
	}
	flavor, err := lookup.Flavor(ctx, services.Compute, "spec.flavor", config.Spec.Flavor)
	if err != nil {
		return driver.Size{}, toError(fmt.Errorf("looking up flavor: %w", err), "", "")
	}
	image, err := lookup.Image(ctx, services.Image, config.Spec.Image)
	if err != nil {
		return driver.Size{}, toError(fmt.Errorf("looking up image: %w", err), "", "")
	}
	const mebi, gibi = 1 << 20, 1 << 30
	disk := cmp.Or(int64(config.Spec.RootVolume.SizeGiB), int64(flavor.Disk))
	size := driver.Size{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(flavor.VCPUs), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(flavor.RAM)*mebi, resource.BinarySI),
		},
		Architecture:    architectures[lookup.Property(image, "architecture")],
		OperatingSystem: cmp.Or(lookup.Property(image, "os_type"), "linux"),
	}
	if disk > 0 {
		size.Capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(disk*gibi, resource.BinarySI)
	}
	return size, nil
}
