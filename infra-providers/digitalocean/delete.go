// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/digitalocean/godo"
	"github.com/go-logr/logr"

	"drover.io/infra-providers/digitalocean/claim"
	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/digitalocean/volume"
	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. The Droplet is deleted last, because no later call may delete anything without it: first
// its reserved IP, its volumes, and the claim. While volumes are being detached Delete returns with the Droplet still there,
// and continues when it is called again.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return d.toRetryableError(d.delete(ctx, id))
}

func (d *Driver) delete(ctx context.Context, id driver.Identity) error {
	found, claimed, err := d.findAll(ctx, id)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(found), func(droplet *godo.Droplet) bool { return !isOwn(droplet, id) })
	if len(own) == 0 && len(found) > 0 {
		if id.ProviderID == "" {
			// What a creation without a Droplet left is deleted.
			if claimed, err = d.claims.Read(ctx, id); err == nil {
				err = d.deleteRest(ctx, id, claimed)
			}
			if err != nil {
				return err
			}
		}
		_, err := id.Checked(d.toInstance(found[0]))
		return err
	}
	for _, droplet := range own {
		known := toInstance(droplet).Identity
		if gone, err := d.deleteDroplet(ctx, known, droplet); err != nil || !gone {
			return err
		}
		id.UID = known.UID
	}
	return d.deleteRest(ctx, id, claimed)
}

// findAll returns all Droplets of a machine: those with its UID, and those that its provider ID and its claim name. One that the
// provider ID names comes first.
func (d *Driver) findAll(ctx context.Context, id driver.Identity) (found []*godo.Droplet, claimed *claim.Claim, err error) {
	if number, ok := parseProviderID(id.ProviderID); ok {
		droplet, err := d.read(ctx, number)
		if err != nil {
			return nil, nil, err
		}
		if droplet != nil {
			found = append(found, droplet)
			if !isOwn(droplet, id) {
				return found, nil, nil
			}
		}
	}
	tagged, err := d.findByUID(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	for _, droplet := range tagged {
		if !slices.ContainsFunc(found, func(f *godo.Droplet) bool { return f.ID == droplet.ID }) {
			found = append(found, droplet)
		}
	}
	if len(found) > 0 {
		return found, nil, nil
	}
	droplet, claimed, err := d.findByClaim(ctx, id)
	if droplet != nil {
		found = append(found, droplet)
	}
	return found, claimed, err
}

// deleteDroplet deletes a Droplet and what its machine has beside it, and reports whether it does not exist any more.
func (d *Driver) deleteDroplet(ctx context.Context, id driver.Identity, droplet *godo.Droplet) (gone bool, err error) {
	if tag.Has(droplet.Tags, tag.ReservedIP) {
		if err := d.deleteReservedIPOf(ctx, id, droplet.ID); err != nil {
			return false, err
		}
		if err := d.untagReservedIP(ctx, droplet); err != nil {
			return false, err
		}
	}
	if tag.Has(droplet.Tags, tag.Volumes) {
		if deleted, err := d.deleteVolumesOf(ctx, id, droplet); err != nil || !deleted {
			return false, err
		}
	}
	if err := d.claims.DeleteOf(ctx, id); err != nil {
		return false, err
	}
	if _, err := d.client.Droplets.Delete(ctx, droplet.ID); err != nil && !isNotFound(err) {
		return false, fmt.Errorf("deleting Droplet %d: %w", droplet.ID, err)
	}
	d.deletions.Set(withoutUID(id), d.clock.Now())
	left, err := d.read(ctx, droplet.ID)
	return left == nil && err == nil, err
}

// deleteVolumesOf deletes the volumes of a machine with a Droplet. A new Droplet is attached to them only once it is active.
func (d *Driver) deleteVolumesOf(ctx context.Context, id driver.Identity, droplet *godo.Droplet) (deleted bool, err error) {
	count, err := d.countTagged(ctx, id)
	if err != nil || count.volumes == 0 {
		return err == nil, err
	}
	disks, err := d.volumes.Get(ctx, id, droplet.VolumeIDs)
	if err == nil && len(disks) < count.volumes {
		disks, err = d.volumes.OfMachine(ctx, id)
	}
	if err != nil {
		return false, err
	}
	return d.volumes.Delete(ctx, disks)
}

// deleteReservedIPOf deletes the reserved IP of a machine with a Droplet: the one that its claim records, because an operator
// may have assigned another one to the Droplet. If the claim records no request, the machine has none; without a claim, or
// after a request without an answer, it is the one that the Droplet has.
func (d *Driver) deleteReservedIPOf(ctx context.Context, id driver.Identity, dropletID int) error {
	claimed, err := d.claims.Read(ctx, id)
	if err != nil {
		return err
	}
	requested := claimed != nil && claimed.ReservedIP == claim.Requested
	switch {
	case claimed != nil && claimed.ReservedIP == "":
		return nil
	case claimed != nil && !requested:
		return d.deleteRecordedIP(ctx, *claimed)
	}
	addresses, err := d.reservedIPsOf(ctx, dropletID)
	if err == nil && len(addresses) == 0 && requested && claimed.Fresh(d.clock.Now()) {
		return errLateIP
	}
	for _, address := range addresses {
		if err == nil {
			err = d.deleteReservedIP(ctx, address)
		}
	}
	return err
}

// untagReservedIP marks a Droplet as one whose machine has no reserved IP any more, before the claim with the record is deleted:
// the next call would otherwise delete one that an operator assigned.
func (d *Driver) untagReservedIP(ctx context.Context, droplet *godo.Droplet) error {
	resources := []godo.Resource{{ID: strconv.Itoa(droplet.ID), Type: godo.DropletResourceType}}
	for _, name := range droplet.Tags {
		if !tag.Has([]string{name}, tag.ReservedIP) {
			continue
		}
		if _, err := d.client.Tags.UntagResources(ctx, name, &godo.UntagResourcesRequest{Resources: resources}); err != nil && !isNotFound(err) {
			return fmt.Errorf("removing tag %q from Droplet %d: %w", name, droplet.ID, err)
		}
	}
	return nil
}

func (d *Driver) deleteReservedIP(ctx context.Context, address string) error {
	_, err := d.client.ReservedIPs.Delete(ctx, address)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("deleting reserved IP %s: %w", address, err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("deleted reserved IP", "ip", address)
	}
	return nil
}

// deleteRest deletes what is left of a machine without a Droplet: volumes, its tags, and the reserved IP and the claim, if
// there is one.
func (d *Driver) deleteRest(ctx context.Context, id driver.Identity, claimed *claim.Claim) error {
	if id.UID == "" || id.Owner.Name == "" || !tag.Valid(tag.Machine(id.UID)) {
		return nil
	}
	if claimed != nil && d.mayCreate(*claimed) {
		return errBusy
	}
	if err := d.deleteTagged(ctx, id); err != nil {
		return err
	}
	if d.lateVolumes.Has(withoutUID(id)) {
		return errLateVolume
	}
	if claimed == nil {
		return nil
	}
	if err := d.deleteRecordedIP(ctx, *claimed); err != nil {
		return err
	}
	return d.claims.Delete(ctx, *claimed)
}

// tagged is how much has the tag of a machine.
type tagged struct{ all, volumes int }

// countTagged counts what has the tag of a machine, so that the volumes of the team are listed only if there are any.
func (d *Driver) countTagged(ctx context.Context, id driver.Identity) (count tagged, err error) {
	found, _, err := d.client.Tags.Get(ctx, tag.Machine(id.UID))
	if isNotFound(err) {
		return count, nil
	}
	if err != nil {
		return count, fmt.Errorf("reading the tag of the machine: %w", err)
	}
	if found.Resources != nil {
		count.all = found.Resources.Count
		if found.Resources.Volumes != nil {
			count.volumes = found.Resources.Volumes.Count
		}
	}
	return count, nil
}

// deleteTagged deletes the volumes with the tag of a machine, and its tags.
func (d *Driver) deleteTagged(ctx context.Context, id driver.Identity) error {
	count, err := d.countTagged(ctx, id)
	if err != nil {
		return err
	}
	if count.volumes > 0 {
		disks, err := d.volumes.OfMachine(ctx, id)
		if err != nil {
			return err
		}
		if deleted, err := d.volumes.Delete(ctx, disks); err != nil || !deleted {
			return errors.Join(err, volume.Waiting())
		}
		count.all -= len(disks)
	}
	if count.all > 0 {
		return nil
	}
	return d.deleteTags(ctx, id)
}

// deleteTags deletes the tags that only this machine has, if this process deleted its Droplet: deleting a tag removes it from
// everything, so nothing else may be about to get it. Otherwise two tags remain, which cost nothing.
func (d *Driver) deleteTags(ctx context.Context, id driver.Identity) error {
	if !d.deletions.Has(withoutUID(id)) {
		return nil
	}
	for _, name := range tag.OfMachine(id) {
		if _, err := d.client.Tags.Delete(ctx, name); err != nil && !isNotFound(err) {
			return fmt.Errorf("deleting tag %q: %w", name, err)
		}
	}
	return nil
}

// deleteRecordedIP deletes the reserved IP that the claim of a machine records, if any, unless it was assigned to another Droplet.
func (d *Driver) deleteRecordedIP(ctx context.Context, claimed claim.Claim) error {
	if claimed.ReservedIP == "" || claimed.ReservedIP == claim.Requested {
		return nil
	}
	found, _, err := d.client.ReservedIPs.Get(ctx, claimed.ReservedIP)
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading reserved IP %s: %w", claimed.ReservedIP, err)
	case found.Droplet != nil && found.Droplet.ID != claimed.DropletID:
		return nil
	}
	return d.deleteReservedIP(ctx, claimed.ReservedIP)
}

// listReservedIPs yields the reserved IPs of the team over all pages, and a failure last.
func (d *Driver) listReservedIPs(ctx context.Context) iter.Seq2[godo.ReservedIP, error] {
	return func(yield func(godo.ReservedIP, error) bool) {
		for page := 1; ; page++ {
			found, response, err := d.client.ReservedIPs.List(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
			if err != nil {
				yield(godo.ReservedIP{}, fmt.Errorf("listing reserved IPs: %w", err))
				return
			}
			for _, ip := range found {
				if !yield(ip, nil) {
					return
				}
			}
			if response.Links == nil || response.Links.IsLastPage() {
				return
			}
		}
	}
}
