// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// Groups are the server groups that the provider manages: one per Cluster and policy.
type Groups struct{ Client *gophercloud.ServiceClient }

// groupPrefix is the prefix of the names of the groups of a Cluster.
func groupPrefix(owner driver.Owner) string { return fmt.Sprintf("%s-%s-", NamePrefix, owner.UID) }

// Ensure returns the ID of the group of a Cluster with a policy. Names are not unique: of several the one
// with the lowest ID is used, and those without members are deleted by a later Delete.
func (g Groups) Ensure(ctx context.Context, owner driver.Owner, policy string) (string, error) {
	all, err := g.list(ctx)
	if err != nil {
		return "", err
	}
	for _, group := range all {
		if group.Name == groupPrefix(owner)+policy {
			return group.ID, nil
		}
	}
	created, err := servergroups.Create(ctx, g.Client, servergroups.CreateOpts{Name: groupPrefix(owner) + policy, Policy: policy}).Extract()
	if err != nil {
		return "", &CreationError{"server group", err}
	}
	logr.FromContextOrDiscard(ctx).Info("created server group", "serverGroup", created.Name)
	return created.ID, nil
}

// Exists reports whether a group still exists.
func (g Groups) Exists(ctx context.Context, id string) (bool, error) {
	_, err := servergroups.Get(ctx, g.Client, id).Extract()
	if access.Missing(err) {
		return false, nil
	}
	return err == nil, err
}

// Members returns the number of servers in a group.
func (g Groups) Members(ctx context.Context, id string) (int, error) {
	found, err := servergroups.Get(ctx, g.Client, id).Extract()
	if err != nil {
		return 0, err
	}
	return len(found.Members), nil
}

// Delete deletes the groups of a Cluster without members other than a server that is being deleted. A machine that needs
// the group at the same time creates it again.
func (g Groups) Delete(ctx context.Context, owner driver.Owner, deletedServer string) error {
	if owner.UID == "" {
		return nil
	}
	all, err := g.list(ctx)
	if err != nil {
		return err
	}
	for _, group := range all {
		others := slices.ContainsFunc(group.Members, func(member string) bool { return member != deletedServer })
		if others || !strings.HasPrefix(group.Name, groupPrefix(owner)) {
			continue
		}
		err := servergroups.Delete(ctx, g.Client, group.ID).ExtractErr()
		if err != nil && !access.Missing(err) {
			return fmt.Errorf("deleting server group: %w", err)
		}
		if err == nil {
			logr.FromContextOrDiscard(ctx).Info("deleted server group", "serverGroup", group.Name)
		}
	}
	return nil
}

func (g Groups) list(ctx context.Context) ([]servergroups.ServerGroup, error) {
	ctx = access.WithBudget(ctx)
	var all []servergroups.ServerGroup
	for {
		list := servergroups.List(g.Client, servergroups.ListOpts{Limit: 500, Offset: len(all)})
		more, err := access.All(ctx, list, servergroups.ExtractServerGroups)
		if all = append(all, more...); len(all) > access.MostListed {
			err = &access.TooManyError{}
		}
		if err != nil {
			return nil, fmt.Errorf("listing server groups: %w", err)
		}
		if len(more) == 0 {
			break
		}
	}
	slices.SortFunc(all, func(a, b servergroups.ServerGroup) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
