// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/digitalocean/godo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/digitalocean/volume"
	"drover.io/infra-providers/driver"
)

// AccountID implements driver.AccountIdentifier. It is the team of the token, or the user of an account without teams.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	account, _, err := d.client.Account.Get(ctx)
	if err != nil {
		return "", d.toRetryableError(fmt.Errorf("reading the account: %w", err))
	}
	id := account.UUID
	if account.Team != nil {
		id = cmp.Or(account.Team.UUID, id)
	}
	if id == "" {
		return "", fmt.Errorf("reading the account: it has no UUID")
	}
	return "digitalocean/" + id, nil
}

// Capacity implements driver.CapacityProvider. All Droplets are amd64; the cloud does not report it.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	found, err := d.catalog.Size(ctx, config.Size)
	if err != nil {
		return driver.Capacity{}, toError(err, d.clock.Now())
	}
	return driver.Capacity{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(found.Vcpus), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(int64(found.Memory)<<20, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(found.Disk)<<30, resource.BinarySI),
		},
		Architecture:    "amd64",
		OperatingSystem: "linux",
	}, nil
}

// FindImage implements driver.ImageFinder. The cloud reports no architecture.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.catalog.Image(ctx, config.Image, config.ImageName, config.Region)
	if err != nil {
		return driver.Image{}, toError(err, d.clock.Now())
	}
	return driver.Image{ID: strconv.Itoa(found.ID)}, nil
}

// image returns the image of a creation. One that the spec names by its ID or slug is not looked up: the cloud refuses what
// does not exist.
func (d *Driver) image(ctx context.Context, config InstanceConfig) (godo.DropletCreateImage, error) {
	if config.ImageName != "" {
		found, err := d.catalog.Image(ctx, "", config.ImageName, config.Region)
		return godo.DropletCreateImage{ID: found.ID}, err
	}
	if id, err := strconv.Atoi(config.Image); err == nil {
		return godo.DropletCreateImage{ID: id}, nil
	}
	return godo.DropletCreateImage{Slug: config.Image}, nil
}

// Tag implements driver.Tagger. The Droplet is tagged last, because its tags decide whether Tag is complete: after a failure
// the next attempt repeats all of it.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	droplet, found, err := d.get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	return d.toRetryableError(d.tag(ctx, id, droplet))
}

func (d *Driver) tag(ctx context.Context, id driver.Identity, droplet *godo.Droplet) error {
	claimed, err := d.claims.Read(ctx, id)
	if err != nil {
		return err
	}
	if claimed != nil && claimed.Identity.Owner.UID != id.Owner.UID {
		claimed.Identity.Owner.UID = id.Owner.UID
		if err := d.claims.Write(ctx, *claimed); err != nil {
			return err
		}
	}
	disks, err := d.volumes.Get(ctx, id, droplet.VolumeIDs)
	if err != nil {
		return err
	}
	if _, _, err := d.client.Tags.Create(ctx, &godo.TagCreateRequest{Name: tag.Cluster(id.Owner.UID)}); err != nil {
		return fmt.Errorf("creating the tag of the Cluster: %w", err)
	}
	for _, disk := range disks {
		if err := d.replaceOwner(ctx, id, disk.Tags, godo.Resource{ID: disk.ID, Type: godo.VolumeResourceType}); err != nil {
			return fmt.Errorf("tagging volume %q: %w", disk.Name, err)
		}
	}
	if err := d.replaceOwner(ctx, id, droplet.Tags, godo.Resource{ID: strconv.Itoa(droplet.ID), Type: godo.DropletResourceType}); err != nil {
		return fmt.Errorf("tagging Droplet %d: %w", droplet.ID, err)
	}
	return nil
}

// replaceOwner adds the tag of a Cluster to a resource, and removes those of others.
func (d *Driver) replaceOwner(ctx context.Context, id driver.Identity, tags []string, of godo.Resource) error {
	resources := []godo.Resource{of}
	if _, err := d.client.Tags.TagResources(ctx, tag.Cluster(id.Owner.UID), &godo.TagResourcesRequest{Resources: resources}); err != nil {
		return err
	}
	for _, stale := range tag.Stale(tags, id) {
		if _, err := d.client.Tags.UntagResources(ctx, stale, &godo.UntagResourcesRequest{Resources: resources}); err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

// get returns the Droplet of an identity as Get does.
func (d *Driver) get(ctx context.Context, id driver.Identity) (*godo.Droplet, driver.Instance, error) {
	droplet, _, err := d.find(ctx, id)
	if err != nil {
		return nil, driver.Instance{}, d.toRetryableError(err)
	}
	if droplet == nil {
		return nil, driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("Droplet of machine %q", id.Name)}
	}
	found, err := id.Checked(d.toInstance(droplet))
	return droplet, found, err
}

// Restart implements driver.Restarter, by a power cycle. A Droplet carries out one action at a time, so Restart may fail with
// a transient error.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	droplet, found, err := d.get(ctx, id)
	if _, err := driver.RequireRunning(found, err); err != nil {
		return err
	}
	_, _, err = d.client.DropletActions.PowerCycle(ctx, droplet.ID)
	return d.toRetryableError(err)
}

// AttachedObjects implements driver.AttachedObjectLister: volumes, reserved IPs, and claims.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for volume, err := range d.attachedVolumes(ctx) {
			if err != nil || isListed(owner, volume.Identity) {
				if !yield(volume, d.toRetryableError(err)) || err != nil {
					return
				}
			}
		}
		claims, err := d.claims.List(ctx)
		if err != nil {
			yield(driver.AttachedObject{}, d.toRetryableError(err))
			return
		}
		for _, claimed := range claims {
			attached := driver.AttachedObject{Kind: "SSH key", ID: strconv.Itoa(claimed.KeyID), Identity: claimed.Identity, Created: claimed.Written}
			if claimed.ReservedIP != "" {
				attached.Kind = "SSH key and reserved IP"
			}
			if isListed(owner, claimed.Identity) && !yield(attached, nil) {
				return
			}
		}
		d.yieldReservedIPs(ctx, owner, yield)
	}
}

func (d *Driver) attachedVolumes(ctx context.Context) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for found, err := range d.volumes.List(ctx) {
			if !yield(volume.AttachedObject(found), err) {
				return
			}
		}
	}
}

// yieldReservedIPs yields the reserved IPs of Droplets of Drover. Those that no Droplet has are those of claims.
func (d *Driver) yieldReservedIPs(ctx context.Context, owner driver.Owner, yield func(driver.AttachedObject, error) bool) {
	for ip, err := range d.listReservedIPs(ctx) {
		if err != nil {
			yield(driver.AttachedObject{}, d.toRetryableError(err))
			return
		}
		if ip.Droplet == nil || !tag.Has(ip.Droplet.Tags, tag.ReservedIP) {
			continue
		}
		holder := toInstance(ip.Droplet)
		attached := driver.AttachedObject{Kind: "reserved IP", ID: ip.IP, Identity: holder.Identity, Created: holder.Created}
		attached.Identity.ProviderID = ""
		if isListed(owner, attached.Identity) && !yield(attached, nil) {
			return
		}
	}
}
