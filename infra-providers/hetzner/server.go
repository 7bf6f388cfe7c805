// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/catalog"
	"drover.io/infra-providers/hetzner/volume"
	"drover.io/infra-providers/internal/inflight"
)

// createServer creates the server, or returns the one of its name.
func (d *Driver) createServer(ctx context.Context, req driver.CreateRequest[InstanceConfig], userData string) (*hcloud.Server, error) {
	opts, err := d.serverOptions(ctx, req.Identity, req.Config)
	if err != nil {
		return nil, err
	}
	opts.UserData = userData
	// Volumes are last, so that nothing is created for a spec with a name that does not exist.
	opts.Volumes, err = d.volumes.Ensure(ctx, volume.Spec{
		Identity: req.Identity, Location: req.Config.Location, Labels: opts.Labels, Volumes: req.Config.Volumes,
	})
	if err != nil {
		return nil, d.recordUnanswered(req.Identity, err)
	}
	for _, attached := range opts.Volumes {
		if attached.Server != nil {
			// The server exists and is not listed yet.
			return d.readServer(ctx, attached.Server.ID)
		}
	}
	created, _, err := d.api.Create(ctx, opts)
	if hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
		return d.findNamesake(ctx, req.Identity, err)
	}
	return created.Server, d.recordUnanswered(req.Identity, err)
}

// recordUnanswered records a request that had no answer and may take effect later.
func (d *Driver) recordUnanswered(id driver.Identity, err error) error {
	if isUnanswered(err) {
		d.creations.Set(id, serverObject, inflight.Creation{})
	}
	return err
}

// serverOptions returns the options of the creation without user data and volumes. Everything that the spec names
// exists.
func (d *Driver) serverOptions(ctx context.Context, id driver.Identity, config InstanceConfig) (opts hcloud.ServerCreateOpts, err error) {
	opts = hcloud.ServerCreateOpts{
		Name:             id.Name,
		Labels:           volume.Labels(config.Labels, id),
		StartAfterCreate: hcloud.Ptr(!startsAfterAttachment(config)),
		Automount:        hcloud.Ptr(false),
	}
	if config.Location != "" {
		opts.Location = &hcloud.Location{Name: config.Location}
	}
	if opts.ServerType, opts.Image, err = d.findTypeAndImage(ctx, config); err != nil {
		return opts, err
	}
	if opts.SSHKeys, err = d.catalog.SSHKeys(ctx, config.SSHKeys); err != nil {
		return opts, err
	}
	if config.PlacementGroup != "" || config.PlacementGroupSelector != "" {
		if opts.PlacementGroup, err = d.catalog.PlacementGroup(ctx, config.PlacementGroup, config.PlacementGroupSelector); err != nil {
			return opts, err
		}
	}
	return opts, d.addNetworkOptions(ctx, config, &opts)
}

// findTypeAndImage returns the server type, and the image for its architecture.
func (d *Driver) findTypeAndImage(ctx context.Context, config InstanceConfig) (*hcloud.ServerType, *hcloud.Image, error) {
	serverType, err := d.catalog.ServerType(ctx, config.ServerType)
	if err != nil {
		return nil, nil, err
	}
	image, err := d.catalog.Image(ctx, config.Image, config.ImageSelector, serverType.Architecture)
	return serverType, image, err
}

// addNetworkOptions adds networks, public addresses and firewalls to the options.
func (d *Driver) addNetworkOptions(ctx context.Context, config InstanceConfig, opts *hcloud.ServerCreateOpts) (err error) {
	if opts.Networks, err = d.catalog.Networks(ctx, networksAtCreation(config.Networks)); err != nil {
		return err
	}
	firewalls, err := d.catalog.Firewalls(ctx, config.Firewalls)
	if err != nil {
		return err
	}
	for _, firewall := range firewalls {
		opts.Firewalls = append(opts.Firewalls, &hcloud.ServerCreateFirewall{Firewall: *firewall})
	}
	public := &hcloud.ServerCreatePublicNet{EnableIPv4: isEnabled(config.PublicIPv4), EnableIPv6: isEnabled(config.PublicIPv6)}
	opts.PublicNet = public
	v4, v6 := config.PublicIPv4, config.PublicIPv6
	if public.IPv4, err = d.catalog.PrimaryIP(ctx, catalog.Address{
		Field: "spec.publicIPv4", Kind: hcloud.PrimaryIPTypeIPv4, Name: v4.PrimaryIP, Selector: v4.PrimaryIPSelector, Location: config.Location,
	}); err != nil {
		return err
	}
	public.IPv6, err = d.catalog.PrimaryIP(ctx, catalog.Address{
		Field: "spec.publicIPv6", Kind: hcloud.PrimaryIPTypeIPv6, Name: v6.PrimaryIP, Selector: v6.PrimaryIPSelector, Location: config.Location,
	})
	return err
}

// readServer returns a server that existed a moment ago.
func (d *Driver) readServer(ctx context.Context, id int64) (*hcloud.Server, error) {
	found, _, err := d.api.GetByID(ctx, id)
	if err == nil && found == nil {
		err = fmt.Errorf("server %d was deleted meanwhile", id)
	}
	return found, err
}

// findNamesake returns the server whose name is in use if it is this machine's: created by a call whose answer was lost,
// or by a concurrent caller. While another machine's server has the name, the creation fails until the name is free.
func (d *Driver) findNamesake(ctx context.Context, id driver.Identity, cause error) (*hcloud.Server, error) {
	found, _, err := d.api.GetByName(ctx, id.Name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cause
	}
	if _, err := id.Checked(toInstance(found)); err != nil {
		return nil, fmt.Errorf("the project has another server with the name of this machine, %q (%s): delete one of them", found.Name, providerID(found.ID))
	}
	return found, nil
}

// completeServer requests the next change that a new server needs. It is one at a time, because a server is locked
// during an action.
func (d *Driver) completeServer(ctx context.Context, server *hcloud.Server, config InstanceConfig) error {
	attach, err := d.nextNetwork(ctx, server, config)
	if err != nil {
		return err
	}
	held := startsAfterAttachment(config) && (server.Status == hcloud.ServerStatusOff || server.Status == hcloud.ServerStatusInitializing)
	log := logr.FromContextOrDiscard(ctx)
	switch {
	case attach == nil && (!config.Backups || server.BackupWindow != "") && !held:
		return nil
	case server.Locked:
		return errInProgress
	case attach != nil:
		if _, _, err = d.api.AttachToNetwork(ctx, server, *attach); err == nil {
			log.Info("attached network", "network", attach.Network.Name)
		}
	case config.Backups && server.BackupWindow == "":
		if _, _, err = d.api.EnableBackup(ctx, server, ""); err == nil {
			log.Info("enabled backups")
		}
	default:
		if _, _, err = d.api.Poweron(ctx, server); err == nil {
			log.Info("powered on instance")
		}
	}
	if err != nil {
		return err
	}
	return errInProgress
}

// nextNetwork returns the next network that a server has to be attached to, or nil.
func (d *Driver) nextNetwork(ctx context.Context, server *hcloud.Server, config InstanceConfig) (*hcloud.ServerAttachToNetworkOpts, error) {
	for _, network := range config.Networks {
		if !needsAttachment(network) {
			continue
		}
		found, err := d.catalog.Networks(ctx, []string{network.Name})
		if err != nil {
			return nil, err
		}
		if server.PrivateNetFor(found[0]) != nil {
			continue
		}
		opts, err := attachOptions(network)
		opts.Network = found[0]
		return &opts, err
	}
	return nil, nil
}
