// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup resolves IDs and names in a spec to IDs. Nothing is cached, because the resource of a name may change. A
// name of no or of several resources is an InvalidConfigurationError of the field; other errors of the cloud are returned
// as they are. The openstack driver calls it.
package lookup

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// Flavor finds a flavor by ID or name. The ID of a flavor may be any text, so it is searched in the list.
func Flavor(ctx context.Context, compute *gophercloud.ServiceClient, field, ref string) (flavors.Flavor, error) {
	all, err := access.All(ctx, flavors.ListDetail(compute, nil), flavors.ExtractFlavors)
	if err != nil {
		return flavors.Flavor{}, err
	}
	if at := slices.IndexFunc(all, func(f flavors.Flavor) bool { return f.ID == ref }); at >= 0 {
		return all[at], nil
	}
	matching := slices.DeleteFunc(all, func(f flavors.Flavor) bool { return f.Name != ref })
	return onlyOne(matching, field, "flavor", ref)
}

// Network finds a network by ID or name.
func Network(ctx context.Context, network *gophercloud.ServiceClient, field, ref string) (string, error) {
	options := networks.ListOpts{Name: ref}
	if isID(ref) {
		options = networks.ListOpts{ID: ref}
	}
	all, err := access.All(ctx, networks.List(network, options), networks.ExtractNetworks)
	if err != nil {
		return "", err
	}
	found, err := onlyOne(all, field, "network", ref)
	return found.ID, err
}

// Subnet finds a subnet of a network by ID or name.
func Subnet(ctx context.Context, network *gophercloud.ServiceClient, field string, of Subnetwork) (string, error) {
	options := subnets.ListOpts{NetworkID: of.NetworkID, Name: of.Subnet}
	if isID(of.Subnet) {
		options = subnets.ListOpts{NetworkID: of.NetworkID, ID: of.Subnet}
	}
	all, err := access.All(ctx, subnets.List(network, options), subnets.ExtractSubnets)
	if err != nil {
		return "", err
	}
	found, err := onlyOne(all, field, "subnet of the network", of.Subnet)
	return found.ID, err
}

// Subnetwork is a subnet, by ID or name, of a network, by ID.
type Subnetwork struct{ NetworkID, Subnet string }

// SecurityGroups finds security groups by ID or name.
func SecurityGroups(ctx context.Context, network *gophercloud.ServiceClient, field string, refs []string) ([]string, error) {
	ids := make([]string, 0, len(refs))
	for at, ref := range refs {
		options := groups.ListOpts{Name: ref}
		if isID(ref) {
			options = groups.ListOpts{ID: ref}
		}
		all, err := access.All(ctx, groups.List(network, options), groups.ExtractGroups)
		if err != nil {
			return nil, err
		}
		found, err := onlyOne(all, fmt.Sprintf("%s[%d]", field, at), "security group", ref)
		if err != nil {
			return nil, err
		}
		ids = append(ids, found.ID)
	}
	return ids, nil
}

// ServerGroup finds a server group by ID or name.
func ServerGroup(ctx context.Context, compute *gophercloud.ServiceClient, field, ref string) (string, error) {
	all, err := access.All(ctx, servergroups.List(compute, nil), servergroups.ExtractServerGroups)
	if err != nil {
		return "", err
	}
	matching := slices.DeleteFunc(all, func(g servergroups.ServerGroup) bool { return g.ID != ref && g.Name != ref })
	found, err := onlyOne(matching, field, "server group", ref)
	return found.ID, err
}

// onlyOne returns the only element.
func onlyOne[T any](found []T, field, kind, ref string) (T, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	var none T
	err := fmt.Errorf("there is no %s %q that the project can see", kind, ref)
	if len(found) > 1 {
		err = fmt.Errorf("%d resources match %s %q: use its ID", len(found), kind, ref)
	}
	return none, &driver.InvalidConfigurationError{Field: field, Err: err}
}

func isID(ref string) bool {
	_, err := uuid.Parse(ref)
	return err == nil && len(ref) == 36
}
