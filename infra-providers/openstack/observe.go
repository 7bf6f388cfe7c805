// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/shortage"
)

// findAll returns every server of an identity: those of its UID and the one of its provider ID, which has another UID if
// it belongs to another machine.
func (d *Driver) findAll(ctx context.Context, services *access.Services, id driver.Identity) (found []servers.Server, err error) {
	if id.UID != "" {
		if found, err = d.find(ctx, services, id); err != nil {
			return nil, err
		}
	}
	serverID := parseProviderID(id.ProviderID)
	if id.ProviderID == "" || slices.ContainsFunc(found, func(server servers.Server) bool { return server.ID == serverID }) {
		return found, nil
	}
	server, err := d.readServer(ctx, services, serverID)
	if driver.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]servers.Server{server}, found...), nil
}

// find returns the servers of a UID, the oldest first. Nova lists a server by its tag as soon as it has accepted it.
func (d *Driver) find(ctx context.Context, services *access.Services, id driver.Identity) ([]servers.Server, error) {
	var found, own []servers.Server
	var tooMany error
	err := d.listByTag(access.WithBudget(ctx), services, attachments.Name(id.UID), func(server servers.Server) bool {
		if at, _ := attachments.Identity(server.Metadata); at.UID == id.UID {
			found = append(found, server)
			if id.Check(at) == nil {
				own = append(own, server)
			}
		}
		if len(found) > access.MostListed {
			tooMany = fmt.Errorf("listing servers: %w", &access.TooManyError{})
		}
		return tooMany == nil
	})
	if err != nil || tooMany != nil {
		return nil, errors.Join(err, tooMany)
	}
	if len(own) > 0 {
		found = own // other machines may have the same UID, because the author of a machine may choose it
	}
	slices.SortFunc(found, func(a, b servers.Server) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// pageSize is the maximum number of servers in a page of a list: answers of services that a Secret names are bounded.
const pageSize = 500

// listByTag calls visit for every server with a tag until it returns false.
func (d *Driver) listByTag(ctx context.Context, services *access.Services, tag string, visit func(servers.Server) bool) error {
	pager := servers.List(services.Compute, servers.ListOpts{Tags: tag, Limit: pageSize})
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		all, err := servers.ExtractServers(page)
		if err != nil {
			return false, err
		}
		for _, server := range all {
			d.shortages.AddFault(ctx, services.Compute, &server)
			d.observe(server)
			if !visit(server) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return toError(fmt.Errorf("listing servers: %w", err), "", "")
	}
	return nil
}

// readServer reads one server. An empty ID belongs to none.
func (d *Driver) readServer(ctx context.Context, services *access.Services, id string) (servers.Server, error) {
	if id == "" {
		return servers.Server{}, &driver.NotFoundError{What: "server without an ID"}
	}
	server, err := servers.Get(ctx, services.Compute, id).Extract()
	if access.Missing(err) {
		return servers.Server{}, &driver.NotFoundError{What: fmt.Sprintf("server %q", id)}
	}
	if err != nil {
		return servers.Server{}, toError(fmt.Errorf("reading server: %w", err), "", "")
	}
	d.observe(*server)
	return *server, nil
}

// observe adds a server to the records of shortages.
func (d *Driver) observe(server servers.Server) {
	id, _ := attachments.Identity(server.Metadata)
	d.shortages.Observe(server, shortage.Offering{Namespace: id.Owner.Namespace, Flavor: server.Metadata[flavorKey], Zone: server.Metadata[zoneKey]})
}
