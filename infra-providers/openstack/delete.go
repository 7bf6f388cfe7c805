// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
)

// deleteDuplicates returns the oldest server of an identity and deletes the others. There are others only when a request
// took longer than a claim is valid; every earlier caller found the oldest.
func (d *Driver) deleteDuplicates(ctx context.Context, services *access.Services, found []servers.Server, id driver.Identity) (driver.Instance, error) {
	oldest, err := id.Checked(toInstance(found[0]))
	if err != nil {
		return driver.Instance{}, err
	}
	for _, other := range found[1:] {
		if _, err := id.Checked(toInstance(other)); err != nil {
			return driver.Instance{}, err
		}
		if err := d.deleteServer(ctx, services, other); err != nil {
			return driver.Instance{}, err
		}
	}
	return oldest, nil
}

// deleteServer deletes a server unless its deletion is in progress.
func (d *Driver) deleteServer(ctx context.Context, services *access.Services, server servers.Server) error {
	if at := toState(server); at == driver.Stopping || at == driver.Terminated {
		return nil
	}
	d.shortages.DeleteFault(server.ID)
	err := servers.Delete(ctx, services.Compute, server.ID).ExtractErr()
	if err != nil && !access.Missing(err) {
		return toError(fmt.Errorf("deleting server: %w", err), "", "")
	}
	return nil
}

// deleteAttachments deletes the attachments of the servers of an identity, whose deletion was requested.
func (d *Driver) deleteAttachments(ctx context.Context, services *access.Services, id driver.Identity, deleted []servers.Server) error {
	owner, grouped, last := id.Owner, len(deleted) == 0, ""
	if len(deleted) > 0 {
		known, _ := attachments.Identity(deleted[0].Metadata)
		// The group has the name of the Cluster at the creation, which may have another UID since a move.
		id.UID, owner.UID, last = known.UID, types.UID(deleted[0].Metadata[groupKey]), deleted[0].ID
		grouped = owner.UID != ""
	}
	if !id.Tagged() {
		return nil // the owner of attachments without an identity is unknown
	}
	if len(deleted) == 0 {
		if err := d.checkPortsUnused(ctx, services, id); err != nil {
			return err
		}
	}
	if grouped {
		if err := (attachments.Groups{Client: services.Compute}).Delete(ctx, owner, last); err != nil {
			return err
		}
	}
	for _, kind := range attachments.Kinds(services) {
		if err := kind.Delete(ctx, id, len(deleted) > 0); err != nil {
			return err
		}
	}
	return nil
}

// deletePorts deletes the ports of a machine without a server.
func (d *Driver) deletePorts(ctx context.Context, services *access.Services, id driver.Identity) error {
	if err := d.checkPortsUnused(ctx, services, id); err != nil {
		return err
	}
	return attachments.Ports{Client: services.Network}.Delete(ctx, id, false)
}

// checkPortsUnused fails with NotOwnedError while a server without the tags of an identity has one of its ports, such as
// the machine's own server after it lost its tags.
func (d *Driver) checkPortsUnused(ctx context.Context, services *access.Services, id driver.Identity) error {
	found, err := attachments.Ports{Client: services.Network}.Find(ctx, id.UID)
	if err != nil {
		return fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range found {
		if port.DeviceID == "" {
			continue
		}
		server, err := d.readServer(ctx, services, port.DeviceID)
		if driver.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := id.WithoutProviderID().Checked(toInstance(server)); err != nil {
			return err
		}
	}
	return nil
}
