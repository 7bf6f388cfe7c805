// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/lookup"
)

// FloatingIPs are the floating IPs of machines.
type FloatingIPs struct{ Client *gophercloud.ServiceClient }

// Ensure associates a floating IP with a port. The creation has the ID of the port, so the address is never without one. An address
// of another network, as one that an earlier attempt has left, is replaced.
func (f FloatingIPs) Ensure(ctx context.Context, id driver.Identity, portID string, from lookup.Pool) error {
	have, err := f.find(ctx, id)
	if err != nil {
		return err
	}
	isElsewhere := func(address floatingips.FloatingIP) bool { return address.FloatingNetworkID != from.NetworkID }
	for _, address := range have {
		if isElsewhere(address) {
			if err := f.delete(ctx, address); err != nil {
				return err
			}
		}
	}
	have = slices.DeleteFunc(have, isElsewhere)
	if len(have) == 0 {
		created, err := floatingips.Create(ctx, f.Client, floatingips.CreateOpts{
			Description:       Name(id.UID),
			FloatingNetworkID: from.NetworkID,
			SubnetID:          from.SubnetID,
			PortID:            portID,
		}).Extract()
		if err != nil {
			return &CreationError{"floating IP", err}
		}
		logr.FromContextOrDiscard(ctx).Info("created floating IP", "floatingIP", created.ID)
		have = append(have, *created)
	}
	if have[0].PortID != portID {
		update := floatingips.UpdateOpts{PortID: &portID}
		if _, err := floatingips.Update(ctx, f.Client, have[0].ID, update).Extract(); err != nil {
			return fmt.Errorf("associating floating IP: %w", err)
		}
	}
	return f.tag(ctx, id, have[:1])
}

// Tag implements Kind.
func (f FloatingIPs) Tag(ctx context.Context, id driver.Identity) error {
	found, err := f.find(ctx, id)
	if err != nil {
		return err
	}
	return f.tag(ctx, id, found)
}

func (f FloatingIPs) tag(ctx context.Context, id driver.Identity, all []floatingips.FloatingIP) error {
	for _, address := range all {
		if isTagged(address.Tags, id) {
			continue
		}
		if err := tag(ctx, f.Client, "floatingips", address.ID, id); err != nil {
			return fmt.Errorf("tagging floating IP: %w", err)
		}
	}
	return nil
}

// Delete implements Kind.
func (f FloatingIPs) Delete(ctx context.Context, id driver.Identity, _ bool) error {
	found, err := f.find(ctx, id)
	if err != nil {
		return err
	}
	for _, address := range found {
		if err := f.delete(ctx, address); err != nil {
			return err
		}
	}
	return nil
}

func (f FloatingIPs) delete(ctx context.Context, address floatingips.FloatingIP) error {
	err := floatingips.Delete(ctx, f.Client, address.ID).ExtractErr()
	if err != nil && !access.Missing(err) {
		return fmt.Errorf("deleting floating IP: %w", err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("deleted floating IP", "floatingIP", address.ID)
	}
	return nil
}

// AttachedObjects implements Kind.
func (f FloatingIPs) AttachedObjects(ctx context.Context) ([]driver.AttachedObject, error) {
	all, err := f.list(ctx, floatingips.ListOpts{Tags: NamePrefix, Limit: 500})
	if err != nil {
		return nil, err
	}
	var remains []driver.AttachedObject
	for _, address := range all {
		if id, ok := fromTagList(address.Tags); ok {
			remains = append(remains, driver.AttachedObject{
				Kind: "floating IP", ID: address.ID, Identity: id, Created: address.CreatedAt, Copy: address.Description != Name(id.UID),
			})
		}
	}
	return remains, nil
}

// find returns the floating IPs of a machine, and fails with NotOwnedError where one has the tags of another. A cloud that
// does not filter by description returns more addresses, so each is checked.
func (f FloatingIPs) find(ctx context.Context, id driver.Identity) ([]floatingips.FloatingIP, error) {
	all, err := f.list(ctx, floatingips.ListOpts{Description: Name(id.UID)})
	all = slices.DeleteFunc(all, func(address floatingips.FloatingIP) bool { return address.Description != Name(id.UID) })
	for _, address := range all {
		found, tagged := fromTagList(address.Tags)
		if err := check(id, found, tagged); err != nil {
			return nil, fmt.Errorf("floating IP %q: %w", address.ID, err)
		}
	}
	return all, err
}

func (f FloatingIPs) list(ctx context.Context, options floatingips.ListOpts) ([]floatingips.FloatingIP, error) {
	all, err := access.All(ctx, floatingips.List(f.Client, options), floatingips.ExtractFloatingIPs)
	// A cloud without routers has no floating IPs, by Neutron's own answer.
	if access.Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing floating IPs: %w", err)
	}
	return all, nil
}
