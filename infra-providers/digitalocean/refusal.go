// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/digitalocean/godo"

	"drover.io/infra-providers/digitalocean/claim"
	"drover.io/infra-providers/driver"
)

// The cloud answers a creation that it refuses with 422, whatever the reason, and has no codes. The reason is read from
// the state of the account: what the spec names and does not exist, a limit that is reached, a size that is sold out.

// explain returns the reason of a refused Droplet.
func (d *Driver) explain(ctx context.Context, config InstanceConfig, claimed claim.Claim, refusal error) error {
	if !isUnprocessable(refusal) && !isNotFound(refusal) {
		return fmt.Errorf("creating the Droplet: %w", refusal)
	}
	cause := describeCause(refusal)
	size, region, err := d.catalog.Offer(ctx, config.Size, config.Region)
	if err != nil {
		return err
	}
	for _, check := range []func() error{
		func() error { return checkFeatures(config, region) },
		func() error { return d.checkImage(ctx, config, size) },
		func() error { return d.checkKeys(ctx, config.SSHKeys) },
		func() error { return d.checkVPC(ctx, config) },
		func() error { return d.checkClaim(ctx, claimed) },
		func() error { return d.checkDropletLimit(ctx, cause) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if !region.Available || !size.Available || !slices.Contains(size.Regions, config.Region) || !slices.Contains(region.Sizes, config.Size) {
		return &driver.InsufficientCapacityError{InstanceType: config.Size, Zone: config.Region, Err: cause}
	}
	// Nothing explains it any more: what did has passed, or it is a limit that cannot be read.
	return fmt.Errorf("creating the Droplet: %w", refusal)
}

// describeCause returns the cloud's answer as an error without a status, for an error that has a kind of its own.
func describeCause(refusal error) error {
	if answer, ok := errors.AsType[*godo.ErrorResponse](refusal); ok {
		return describe(answer, answer)
	}
	return refusal
}

// checkImage finds that an image is missing, in no such region, or too large.
func (d *Driver) checkImage(ctx context.Context, config InstanceConfig, size godo.Size) error {
	found, err := d.catalog.Image(ctx, config.Image, config.ImageName, config.Region)
	if err != nil {
		return err
	}
	if found.MinDiskSize > size.Disk {
		return driver.InvalidField("spec.size", "image %d needs a disk of %d GiB, size %q has %d", found.ID, found.MinDiskSize, size.Slug, size.Disk)
	}
	return nil
}

func (d *Driver) checkKeys(ctx context.Context, keys []string) error {
	for i, name := range keys {
		err := d.readKey(ctx, toSSHKey(name))
		if isNotFound(err) {
			return driver.InvalidField(fmt.Sprintf("spec.sshKeys[%d]", i), "the team has no SSH key %q", name)
		}
		if err != nil {
			return fmt.Errorf("reading SSH key %q: %w", name, err)
		}
	}
	return nil
}

func (d *Driver) readKey(ctx context.Context, key godo.DropletCreateSSHKey) (err error) {
	if key.Fingerprint != "" {
		_, _, err = d.client.Keys.GetByFingerprint(ctx, key.Fingerprint)
		return err
	}
	_, _, err = d.client.Keys.GetByID(ctx, key.ID)
	return err
}

func (d *Driver) checkVPC(ctx context.Context, config InstanceConfig) error {
	if config.VPCUUID == "" {
		return nil
	}
	found, _, err := d.client.VPCs.Get(ctx, config.VPCUUID)
	switch {
	case isNotFound(err), isUnprocessable(err):
		return driver.InvalidField("spec.vpcUUID", "the team has no VPC %q", config.VPCUUID)
	case err != nil:
		return fmt.Errorf("reading VPC %q: %w", config.VPCUUID, err)
	case found.RegionSlug != config.Region:
		return driver.InvalidField("spec.vpcUUID", "VPC %q is in region %q, the Droplet in %q", config.VPCUUID, found.RegionSlug, config.Region)
	}
	return nil
}

// checkFeatures finds a feature that a region lacks.
func checkFeatures(config InstanceConfig, region godo.Region) error {
	for _, wanted := range []struct {
		field, feature string
		enabled        bool
	}{
		{"spec.ipv6", "ipv6", config.IPv6},
		{"spec.backups", "backups", config.Backups},
		{"spec.volumes", "storage", len(config.Volumes) > 0},
	} {
		if wanted.enabled && !slices.Contains(region.Features, wanted.feature) {
			return driver.InvalidField(wanted.field, "region %q does not have %s", region.Slug, wanted.feature)
		}
	}
	return nil
}

// checkClaim finds that another caller has taken over the claim, so that its key does not exist.
func (d *Driver) checkClaim(ctx context.Context, claimed claim.Claim) error {
	found, err := d.claims.Read(ctx, claimed.Identity)
	if err == nil && (found == nil || found.KeyID != claimed.KeyID) {
		err = errBusy
	}
	return err
}

// checkDropletLimit finds that the team has as many Droplets as it may.
func (d *Driver) checkDropletLimit(ctx context.Context, cause error) error {
	account, _, err := d.client.Account.Get(ctx)
	if err != nil {
		return fmt.Errorf("reading the limits of the account: %w", err)
	}
	_, response, err := d.client.Droplets.List(ctx, &godo.ListOptions{PerPage: 1})
	if err != nil {
		return fmt.Errorf("counting Droplets: %w", err)
	}
	if response.Meta != nil && response.Meta.Total >= account.DropletLimit {
		return &driver.QuotaExceededError{Err: fmt.Errorf("the limit of %d Droplets is reached: %w", account.DropletLimit, cause)}
	}
	return nil
}

// explainVolumes returns the reason of a refused volume.
func (d *Driver) explainVolumes(ctx context.Context, config InstanceConfig, refusal error) error {
	if !isUnprocessable(refusal) {
		return refusal
	}
	_, region, err := d.catalog.Offer(ctx, config.Size, config.Region)
	if err != nil {
		return err
	}
	if err := checkFeatures(config, region); err != nil {
		return err
	}
	account, _, err := d.client.Account.Get(ctx)
	if err != nil {
		return fmt.Errorf("reading the limits of the account: %w", err)
	}
	_, response, err := d.client.Storage.ListVolumes(ctx, &godo.ListVolumeParams{ListOptions: &godo.ListOptions{PerPage: 1}})
	if err != nil {
		return fmt.Errorf("counting volumes: %w", err)
	}
	if response.Meta != nil && account.VolumeLimit > 0 && response.Meta.Total >= account.VolumeLimit {
		return &driver.QuotaExceededError{Err: fmt.Errorf("the limit of %d volumes is reached: %w", account.VolumeLimit, describeCause(refusal))}
	}
	return refusal
}
