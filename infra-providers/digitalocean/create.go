// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"drover.io/infra-providers/digitalocean/claim"
	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/digitalocean/volume"
	"drover.io/infra-providers/driver"
)

// renewAfter is the age after which this process replaces a claim of its own before it uses it, so that no other takes it
// over meanwhile.
const renewAfter = claim.Window / 5

// createDroplet creates the Droplet of a machine without one, under its claim.
func (d *Driver) createDroplet(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (*godo.Droplet, error) {
	image, err := d.image(ctx, req.Config)
	if err != nil {
		return nil, err
	}
	claimed, err := d.claim(ctx, req.Identity)
	if err != nil {
		return nil, err
	}
	// Another caller may have created the Droplet, and released its claim, after the first list.
	found, err := d.findByUID(ctx, req.Identity)
	var disks []godo.Volume
	if err == nil && len(found) == 0 {
		disks, err = d.ensureVolumes(ctx, req)
	}
	if err != nil || len(found) > 0 {
		d.release(ctx, claimed)
		return first(found), err
	}
	return d.requestDroplet(ctx, req, claimed, toRequest(req, image, claimed.KeyID, disks))
}

func (d *Driver) ensureVolumes(ctx context.Context, req driver.CreateRequest[InstanceConfig]) ([]godo.Volume, error) {
	disks, err := d.volumes.Ensure(ctx, volume.Spec{
		Identity: req.Identity, Region: req.Config.Region, Tags: tags(req), Volumes: req.Config.Volumes,
	})
	switch machine := withoutUID(req.Identity); {
	case err == nil:
		d.lateVolumes.Delete(machine) // a late request finds the names in use
	case isUnanswered(err) && !driver.IsNotOwned(err):
		d.lateVolumes.Set(machine, struct{}{})
	}
	return disks, d.explainVolumes(ctx, req.Config, err)
}

// claim claims the creation of a machine's Droplet. It fails with errBusy while another claim is fresh.
func (d *Driver) claim(ctx context.Context, id driver.Identity) (claim.Claim, error) {
	holder, _ := d.holders.GetOrSet(withoutUID(id), uuid.NewString())
	want := claim.Claim{Identity: id, Holder: holder, Written: d.clock.Now()}
	have, taken, err := d.claims.Take(ctx, want)
	if err != nil || taken {
		return have, err
	}
	mine := have.Holder == holder
	switch {
	case mine && d.clock.Since(have.Written) < renewAfter:
		return have, nil
	case !mine && have.Fresh(d.clock.Now()):
		return claim.Claim{}, errBusy
	}
	if !mine {
		// The claim stays until this succeeds: it has the time since which such a Droplet may exist.
		if err := d.checkNamesakes(ctx, id, have); err != nil {
			return claim.Claim{}, err
		}
		// Its Droplet does not exist any more, and without the claim its address would have no owner.
		unassigned := have
		unassigned.DropletID = 0
		if err := d.deleteRecordedIP(ctx, unassigned); err != nil {
			return claim.Claim{}, err
		}
	}
	if err := d.claims.Delete(ctx, have); err != nil {
		return claim.Claim{}, err
	}
	next, taken, err := d.claims.Take(ctx, want)
	if err == nil && !taken {
		err = errBusy
	}
	return next, err
}

// checkNamesakes refuses to create a Droplet while there is one without tags that may be it: the cloud sets the tags after
// the creation.
func (d *Driver) checkNamesakes(ctx context.Context, id driver.Identity, earlier claim.Claim) error {
	found, _, err := d.client.Droplets.ListByName(ctx, id.Name, &godo.ListOptions{PerPage: pageSize})
	if err != nil {
		return fmt.Errorf("listing Droplets by name: %w", err)
	}
	for _, droplet := range found {
		created, _ := time.Parse(time.RFC3339, droplet.Created)
		if tag.Identity(droplet.Tags).UID == "" && !created.Before(earlier.Written.Add(-time.Minute)) {
			return fmt.Errorf("Droplet %d has the name of the machine and no tags, and may have been created for it: delete it, or tag it with %q", //nolint:staticcheck // a name
				droplet.ID, tag.Of(id))
		}
	}
	return nil
}

// release deletes a claim under which nothing can be created. If that fails, this process uses it again, and the deletion of
// the machine deletes it.
func (d *Driver) release(ctx context.Context, claimed claim.Claim) {
	machine := withoutUID(claimed.Identity)
	d.holders.Set(machine, claimed.Holder)
	if err := d.claims.Delete(ctx, claimed); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("the claim stays", "reason", err.Error())
		return
	}
	d.holders.Delete(machine)
}

// requestDroplet requests a Droplet.
func (d *Driver) requestDroplet(ctx context.Context, req driver.CreateRequest[InstanceConfig], claimed claim.Claim, request *godo.DropletCreateRequest) (*godo.Droplet, error) {
	d.holders.Delete(withoutUID(req.Identity))
	droplet, _, err := d.client.Droplets.Create(ctx, request)
	if isUnanswered(err) {
		return nil, fmt.Errorf("creating the Droplet: %w", err)
	}
	if err != nil {
		err = d.explain(ctx, req.Config, claimed, err)
		d.release(ctx, claimed)
		return nil, err
	}
	if len(droplet.Tags) == 0 {
		droplet.Tags = request.Tags
	}
	if droplet.Region == nil {
		droplet.Region = &godo.Region{Slug: request.Region}
	}
	d.recordDroplet(ctx, req, claimed, droplet)
	return droplet, nil
}

// recordDroplet deletes the claim if the Droplet is listed, and otherwise writes its ID into it. The claim of a machine with a
// reserved IP stays, as the record of that. A failure is not one of the creation: the claim expires, and is deleted with the
// machine.
func (d *Driver) recordDroplet(ctx context.Context, req driver.CreateRequest[InstanceConfig], claimed claim.Claim, droplet *godo.Droplet) {
	var latest *godo.Droplet
	var err error
	if !req.Config.ReservedIP {
		latest, err = d.listed(ctx, req.Identity, droplet.ID)
	}
	if latest != nil {
		err = d.claims.Delete(ctx, claimed)
	} else if err == nil {
		claimed.DropletID = droplet.ID
		err = d.claims.Write(ctx, claimed)
		latest, _ = d.read(ctx, droplet.ID)
	}
	if latest != nil {
		*droplet = *latest
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("the claim stays", "reason", err.Error())
	}
}

// listed returns a Droplet as it is listed by its tags, or nil.
func (d *Driver) listed(ctx context.Context, id driver.Identity, dropletID int) (*godo.Droplet, error) {
	found, err := d.findByUID(ctx, id)
	at := slices.IndexFunc(found, func(f *godo.Droplet) bool { return f.ID == dropletID })
	if at < 0 {
		return nil, err
	}
	return found[at], nil
}

// tags returns the tags of the user and those of an identity.
func tags(req driver.CreateRequest[InstanceConfig]) []string {
	return slices.Concat(tag.Of(req.Identity), req.Config.Tags)
}

// toRequest returns the request for a Droplet. The key of the claim is the first of its keys.
func toRequest(req driver.CreateRequest[InstanceConfig], image godo.DropletCreateImage, claimKey int, disks []godo.Volume) *godo.DropletCreateRequest {
	config := req.Config
	request := &godo.DropletCreateRequest{
		Name: req.Identity.Name, Region: config.Region, Size: config.Size, Image: image,
		SSHKeys:          []godo.DropletCreateSSHKey{{ID: claimKey}},
		Tags:             tags(req),
		UserData:         string(req.UserData),
		VPCUUID:          config.VPCUUID,
		IPv6:             config.IPv6,
		Monitoring:       config.Monitoring,
		WithDropletAgent: config.DropletAgent,
		Backups:          config.Backups,
	}
	if config.ReservedIP {
		request.Tags = append(request.Tags, tag.ReservedIP)
	}
	if len(disks) > 0 {
		request.Tags = append(request.Tags, tag.Volumes)
	}
	if !config.PublicNetworking {
		request.PublicNetworking = &config.PublicNetworking
	}
	for _, key := range config.SSHKeys {
		request.SSHKeys = append(request.SSHKeys, toSSHKey(key))
	}
	for _, disk := range disks {
		request.Volumes = append(request.Volumes, godo.DropletCreateVolume{ID: disk.ID})
	}
	if policy := config.BackupPolicy; policy.Plan != "" {
		request.BackupPolicy = &godo.DropletBackupPolicyRequest{Plan: policy.Plan, Weekday: policy.Weekday}
		if policy.Hour != nil {
			hour := int(*policy.Hour)
			request.BackupPolicy.Hour = &hour
		}
	}
	return request
}

// toSSHKey converts an ID or a fingerprint.
func toSSHKey(key string) godo.DropletCreateSSHKey {
	if id, err := strconv.Atoi(key); err == nil && !strings.Contains(key, ":") {
		return godo.DropletCreateSSHKey{ID: id}
	}
	return godo.DropletCreateSSHKey{Fingerprint: key}
}

// ensureReservedIP gives a Droplet its reserved IP, and records that in the claim: the address has no tags, and would
// otherwise have no owner once the Droplet does not exist.
func (d *Driver) ensureReservedIP(ctx context.Context, id driver.Identity, droplet *godo.Droplet) error {
	claimed, err := d.claims.Read(ctx, id)
	switch {
	case err != nil:
		return err
	case claimed == nil:
		next, err := d.claim(ctx, id)
		if err != nil {
			return err
		}
		// What was requested under a claim that was lost is not known.
		next.DropletID, next.ReservedIP = droplet.ID, claim.Requested
		if err := d.claims.Write(ctx, next); err != nil {
			return err
		}
		claimed = &next
	case claimed.ReservedIP != "" && claimed.ReservedIP != claim.Requested:
		return nil
	}
	if droplet.Status == "new" {
		return &driver.UnfinishedError{Err: errStarting}
	}
	addresses, err := d.reservedIPsOf(ctx, droplet.ID)
	if err != nil {
		return err
	}
	claimed.DropletID = droplet.ID
	switch {
	case len(addresses) == 0:
		return d.createReservedIP(ctx, *claimed)
	case claimed.ReservedIP == "":
		return fmt.Errorf("Droplet %d has reserved IP %s, which was not made for it: unassign that, so that it gets its own", droplet.ID, addresses[0]) //nolint:staticcheck // a name
	}
	claimed.ReservedIP = addresses[0]
	return d.claims.Write(ctx, *claimed)
}

// createReservedIP requests a reserved IP. The claim records the request first: a deletion waits for the outcome of one without
// an answer, because nothing identifies an address whose Droplet does not exist any more.
func (d *Driver) createReservedIP(ctx context.Context, claimed claim.Claim) error {
	earlier := claimed.ReservedIP
	claimed.Written, claimed.ReservedIP = d.clock.Now(), claim.Requested
	if err := d.claims.Write(ctx, claimed); err != nil {
		return err
	}
	created, _, err := d.client.ReservedIPs.Create(ctx, &godo.ReservedIPCreateRequest{DropletID: claimed.DropletID})
	switch {
	case isUnanswered(err):
		return fmt.Errorf("creating the reserved IP: %w", err)
	case err != nil:
		d.withdrawRequest(ctx, claimed, earlier)
		return fmt.Errorf("creating the reserved IP, for which the Droplet must have no other action in progress: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("created reserved IP", "ip", created.IP)
	claimed.ReservedIP = created.IP
	return d.claims.Write(ctx, claimed)
}

// withdrawRequest removes the record of a refused request, so that an address which another user gives to the Droplet does not
// count as the machine's own. It stays after an earlier request without an answer, or if the Droplet has an address: another
// caller may have created that. A record that stays otherwise only delays a deletion.
func (d *Driver) withdrawRequest(ctx context.Context, claimed claim.Claim, earlier string) {
	if earlier != "" {
		return
	}
	if addresses, err := d.reservedIPsOf(ctx, claimed.DropletID); err != nil || len(addresses) > 0 {
		return
	}
	claimed.ReservedIP = ""
	_ = d.claims.Write(ctx, claimed)
}

// reservedIPsOf returns the reserved IPs that are assigned to a Droplet.
func (d *Driver) reservedIPsOf(ctx context.Context, id int) (addresses []string, err error) {
	for ip, err := range d.listReservedIPs(ctx) {
		if err != nil {
			return nil, err
		}
		if ip.Droplet != nil && ip.Droplet.ID == id {
			addresses = append(addresses, ip.IP)
		}
	}
	return addresses, nil
}
