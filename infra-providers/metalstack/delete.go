// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/go-logr/logr"
	"github.com/metal-stack/metal-go/api/models"

	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. The API frees a machine by the ID of its hardware and asks for nothing else, so its
// allocation is read immediately before. A machine that was freed is wiped and started anew before it can be allocated again,
// which takes minutes; the request to free it takes callTimeout at most.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return driver.WithoutInvalidConfiguration(toError(d.delete(ctx, id)))
}

func (d *Driver) delete(ctx context.Context, id driver.Identity) error {
	if id.ProviderID != "" {
		if err := d.freeFound(ctx, &id); err != nil {
			return err
		}
		id.ProviderID = ""
	}
	if err := d.freeFound(ctx, &id); err != nil {
		return err
	}
	return d.freeClaims(ctx, id)
}

// freeFound frees the machines of an identity. It sets the UID that their tags have, which a restore may have lost.
func (d *Driver) freeFound(ctx context.Context, id *driver.Identity) error {
	found, err := d.find(ctx, *id)
	if err != nil {
		return err
	}
	for _, instance := range found {
		own, err := id.Checked(instance)
		if err != nil {
			return err
		}
		id.UID = own.Identity.UID
		if err := d.free(ctx, own); err != nil {
			return err
		}
	}
	return nil
}

// free frees a machine that is the identity's. One that is locked is an error until somebody unlocks it.
func (d *Driver) free(ctx context.Context, own driver.Instance) error {
	current, err := d.client.machine(ctx, own.ID)
	if err != nil {
		return err
	}
	if current == nil || current.Allocation == nil || identityOf(current) != own.Identity.WithoutProviderID() {
		return nil
	}
	if isLocked(current) {
		return fmt.Errorf("the machine %q is locked, and metal-stack does not free it: unlock it", own.ID)
	}
	had, _ := d.freed.Get(permanent(own.Identity))
	d.freed.Set(permanent(own.Identity), withAddresses(had, current.Allocation.Networks)) // also if the answer is lost
	if err := d.client.free(ctx, own.ID); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("freed machine", "machine", own.ID)
	return nil
}

// maxFreed is how many addresses of a machine are remembered. It has some few; tenants name the servers.
const maxFreed = 64

// withAddresses returns addresses and those of networks, each once.
func withAddresses(all []string, networks []*models.V1MachineNetwork) []string {
	all = slices.Clone(all)
	for _, network := range networks {
		if network == nil {
			continue
		}
		for _, address := range network.Ips {
			if _, err := netip.ParseAddr(address); err == nil && len(address) <= maxText && len(all) < maxFreed && !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	return all
}
