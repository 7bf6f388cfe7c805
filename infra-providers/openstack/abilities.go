// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// architectures maps the names in the properties of images to Kubernetes' names.
var architectures = map[string]string{
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x",
}

// AccountID implements driver.AccountIdentifier. It is the project in the region, and the host of its identity service.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	services, err := d.services(ctx)
	if err != nil {
		return "", err
	}
	return services.Account, nil
}

// Capacity implements driver.CapacityProvider from the flavor, the root volume and the image's properties.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	services, err := d.services(ctx)
	if err != nil {
		return driver.Capacity{}, err
	}
	flavor, err := lookup.Flavor(ctx, services.Compute, "spec.flavor", config.Spec.Flavor)
	if err != nil {
		return driver.Capacity{}, toError(fmt.Errorf("looking up flavor: %w", err), "", "")
	}
	image, err := lookup.Image(ctx, services.Image, config.Spec.Image)
	if err != nil {
		return driver.Capacity{}, toError(fmt.Errorf("looking up image: %w", err), "", "")
	}
	const mebi, gibi = 1 << 20, 1 << 30
	disk := cmp.Or(int64(config.Spec.RootVolume.SizeGiB), int64(flavor.Disk))
	size := driver.Capacity{
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

// FindImage implements driver.ImageFinder. The architecture is empty for an image without that property.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	services, err := d.services(ctx)
	if err != nil {
		return driver.Image{}, err
	}
	found, err := lookup.Image(ctx, services.Image, config.Spec.Image)
	if err != nil {
		return driver.Image{}, toError(fmt.Errorf("looking up image: %w", err), "", "")
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The server is tagged last, because its metadata decides whether Tag is complete:
// after a failure the next attempt repeats all of it. Nova accepts metadata only for a server that is neither being
// created nor in error. A server group keeps its name.
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
	for _, kind := range attachments.Kinds(services) {
		if err := kind.Tag(ctx, now); err != nil {
			return toError(err, "", "")
		}
	}
	_, err = servers.UpdateMetadata(ctx, services.Compute, found.ID, servers.MetadataOpts(attachments.Tags(now))).Extract()
	if access.Missing(err) {
		return &driver.NotFoundError{What: "server of " + id.Name}
	}
	return toError(err, "", "")
}

// Restart implements driver.Restarter. Nova's hard reboot also starts a server that is off, so one that is stopped
// between the read and the reboot is started again.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
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

// consoleLines is how many lines of a console are read.
const consoleLines = 200

// Console implements driver.ConsoleReader. Nova has none of a server that is not scheduled to a host yet.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	services, err := d.services(ctx)
	if err != nil {
		return nil, err
	}
	output, err := servers.ShowConsoleOutput(ctx, services.Compute, found.ID, servers.ShowConsoleOutputOpts{Length: consoleLines}).Extract()
	switch {
	case access.Missing(err):
		return nil, &driver.NotFoundError{What: "server of " + id.Name}
	case gophercloud.ResponseCodeIs(err, http.StatusConflict):
		return nil, nil
	}
	return driver.LastOutput([]byte(output)), toError(err, "", "")
}

// AttachedObjects implements driver.AttachedObjectLister.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		services, err := d.services(ctx)
		if err != nil {
			yield(driver.AttachedObject{}, err)
			return
		}
		for _, kind := range attachments.Kinds(services) {
			all, err := kind.AttachedObjects(ctx)
			if err != nil {
				yield(driver.AttachedObject{}, toError(err, "", ""))
				return
			}
			for _, remain := range all {
				if (owner.UID == "" || remain.Identity.Owner.UID == owner.UID) && !yield(remain, nil) {
					return
				}
			}
		}
	}
}
