// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// creation creates one server, for a machine without a server in Nova's list.
type creation struct {
	services *access.Services
	request  driver.CreateRequest[InstanceConfig]
	claim    attachments.Claim
	now      func() time.Time
}

// run resolves every name before it creates anything, then creates the attachments, and the server last. What a server needs besides
// its attachments is looked up before those that cost money.
func (c creation) run(ctx context.Context) (driver.Instance, error) {
	config, id := c.request.Config, c.request.Identity
	data, err := encodeUserData(c.request.UserData, c.request.Format)
	if err != nil {
		return driver.Instance{}, err
	}
	plan, err := c.resolve(ctx)
	if err != nil {
		return driver.Instance{}, toError(err, config.Spec.Flavor, config.Zone)
	}
	if len(volumes(config)) > 0 || plan.Pool.NetworkID != "" {
		if err := c.checkNames(ctx); err != nil {
			return driver.Instance{}, err
		}
	}
	ports, err := c.claim.EnsurePorts(ctx, id, plan.Ports(func(at int) string { return attachments.PortName(id, at) }))
	if err != nil {
		return driver.Instance{}, toCreateError("spec.ports", err, config)
	}
	var disks []string
	if len(volumes(config)) > 0 {
		if disks, err = (attachments.Volumes{Client: c.services.Volume}).Ensure(ctx, id, volumeOptions(config, plan.Image.ID)); err != nil {
			return driver.Instance{}, toCreateError("spec.volumes", err, config)
		}
	}
	if plan.Pool.NetworkID != "" {
		if err := (attachments.FloatingIPs{Client: c.services.Network}).Ensure(ctx, id, ports[0].ID, plan.Pool); err != nil {
			return driver.Instance{}, toCreateError("spec.floatingIP", err, config)
		}
	}
	if config.Spec.ServerGroup.Policy != "" {
		if plan.GroupID, err = (attachments.Groups{Client: c.services.Compute}).Ensure(ctx, id.Owner, config.Spec.ServerGroup.Policy); err != nil {
			return driver.Instance{}, c.checkQuota(ctx, plan, toCreateError("spec.serverGroup", err, config))
		}
	}
	return c.createServer(ctx, plan, parts{ports: ports, disks: disks, userData: data})
}

// resolve looks up what the configuration names.
func (c creation) resolve(ctx context.Context) (lookup.Plan, error) {
	config := c.request.Config
	if len(volumes(config)) > 0 && c.services.Volume == nil {
		return lookup.Plan{}, &driver.InvalidConfigurationError{Field: "spec.volumes", Err: errors.New("the cloud has no volume service")}
	}
	if ptr.Deref(config.Spec.RegionalProviderID, false) && c.services.Region == "" {
		return lookup.Plan{}, &driver.InvalidConfigurationError{Field: "spec.region", Err: errors.New("the provider ID has to include the region, but neither the machine nor the credentials have one")}
	}
	return lookup.Resolve(ctx, c.services, config.Spec)
}

// createServer creates the server.
func (c creation) createServer(ctx context.Context, plan lookup.Plan, of parts) (driver.Instance, error) {
	config, id := c.request.Config, c.request.Identity
	options, hints := serverOptions(c.request, plan, of)
	if ptr.Deref(config.Spec.RegionalProviderID, false) {
		options.Metadata[regionKey] = c.services.Region
	}
	created, err := servers.Create(ctx, c.services.Compute, keypairs.CreateOptsExt{CreateOptsBuilder: options, KeyName: config.Spec.KeyPair}, hints).Extract()
	if isUnanswered(err) {
		return driver.Instance{}, fmt.Errorf("creating server: %w: %w", errCreationUnknown, toError(err, config.Spec.Flavor, config.Zone))
	}
	if err != nil {
		return driver.Instance{}, c.explainRefusal(ctx, plan, &attachments.CreationError{What: "server", Err: err})
	}
	// Nova's answer has little more than the ID; the rest comes from the request.
	created.Name, created.Metadata, created.Status, created.Created = options.Name, options.Metadata, "BUILD", c.now()
	if read, err := servers.Get(ctx, c.services.Compute, created.ID).Extract(); err == nil {
		created = read
	}
	return id.WithoutProviderID().Checked(toInstance(*created))
}

// explainRefusal returns the kind of the error of a server that Nova refused to create.
func (c creation) explainRefusal(ctx context.Context, plan lookup.Plan, err error) error {
	config := c.request.Config
	kind := toCreateError("spec", err, config)
	if !driver.IsInvalidConfiguration(kind) {
		kind = c.checkQuota(ctx, plan, kind)
		if driver.IsUnauthorized(kind) && plan.Flavor.Disk == 0 && config.Spec.RootVolume.SizeGiB == 0 {
			return &driver.InvalidConfigurationError{Field: "spec.rootVolume", Err: fmt.Errorf("flavor %q has no disk, and without a rootVolume the cloud answers: %w", config.Spec.Flavor, readAnswer(err))}
		}
		return kind
	}
	if config.Spec.ServerGroup.Policy != "" {
		// The deletion of another machine of the group may have deleted it.
		if exists, err := (attachments.Groups{Client: c.services.Compute}).Exists(ctx, plan.GroupID); err == nil && !exists {
			return fmt.Errorf("the server group was deleted meanwhile: %w", attachments.ErrBusy)
		}
	}
	if err := c.checkNames(ctx); err != nil {
		return err
	}
	return kind
}

// checkNames fails for a key pair or a zone that does not exist, which only Nova has. It is no proof of their existence.
func (c creation) checkNames(ctx context.Context) error {
	keyPair, zone := c.request.Config.Spec.KeyPair, c.request.Config.Zone
	if keyPair != "" {
		_, err := keypairs.Get(ctx, c.services.Compute, keyPair, nil).Extract()
		if access.Missing(err) {
			return driver.InvalidField("spec.keyPair", "the user of the credentials has no key pair %q", keyPair)
		}
	}
	if zone == "" {
		return nil
	}
	name, _, _ := strings.Cut(zone, ":") // a host may follow
	if zones, err := lookup.Zones(ctx, c.services); err == nil && !slices.Contains(zones, name) {
		return driver.InvalidField("spec.availabilityZone", "%q is not one of the zones %q", name, zones)
	}
	return nil
}

// checkQuota distinguishes an exceeded quota from a missing permission, for both of which Nova answers 403, by the limits
// of the project.
func (c creation) checkQuota(ctx context.Context, plan lookup.Plan, kind error) error {
	denied, ok := errors.AsType[*driver.UnauthorizedError](kind)
	if !ok {
		return kind
	}
	found, err := limits.Get(ctx, c.services.Compute, nil).Extract()
	if err != nil || !isQuotaReached(found.Absolute, plan.Flavor) && !c.isGroupFull(ctx, plan, found.Absolute.MaxServerGroupMembers) {
		return kind
	}
	// It wraps the cause of the UnauthorizedError, because an error has one kind.
	return wrap(kind, &driver.QuotaExceededError{Err: denied.Err})
}

// isGroupFull reports whether the server group has its maximum of members. A negative limit means none.
func (c creation) isGroupFull(ctx context.Context, plan lookup.Plan, limit int) bool {
	if plan.GroupID == "" || limit < 0 {
		return false
	}
	members, err := attachments.Groups{Client: c.services.Compute}.Members(ctx, plan.GroupID)
	return err == nil && members >= limit
}

// isQuotaReached reports whether a limit prevents one more server of a flavor. A negative limit means none.
func isQuotaReached(has limits.Absolute, flavor flavors.Flavor) bool {
	exceeds := func(used, more, limit int) bool { return limit >= 0 && used+more > limit }
	return exceeds(has.TotalInstancesUsed, 1, has.MaxTotalInstances) ||
		exceeds(has.TotalCoresUsed, flavor.VCPUs, has.MaxTotalCores) ||
		exceeds(has.TotalRAMUsed, flavor.RAM, has.MaxTotalRAMSize) ||
		exceeds(has.TotalServerGroupsUsed, 1, has.MaxServerGroups)
}
