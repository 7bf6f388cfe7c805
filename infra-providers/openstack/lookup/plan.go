// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/openstack/access"
)

// Plan is a spec with IDs in place of names.
type Plan struct {
	Flavor flavors.Flavor
	Image  images.Image
	// Pool is the pool of the floating IP; without a network there is none.
	Pool Pool
	// GroupID is the server group that the spec names; empty without one.
	GroupID string

	spec infrav1.OpenStackMachineSpec
	nics []nic
}

// Pool is the network and the subnet of a floating IP, by ID.
type Pool struct{ NetworkID, SubnetID string }

// nic is one port with IDs in place of names.
type nic struct {
	networkID      string
	fixedIPs       []ports.IP
	securityGroups []string
}

// Resolve looks up everything that a spec names. It changes nothing.
func Resolve(ctx context.Context, services *access.Services, spec infrav1.OpenStackMachineSpec) (Plan, error) {
	found := Plan{spec: spec}
	var err error
	if found.Flavor, err = Flavor(ctx, services.Compute, "spec.flavor", spec.Flavor); err != nil {
		return Plan{}, fmt.Errorf("looking up flavor: %w", err)
	}
	if found.Image, err = Image(ctx, services.Image, spec.Image); err != nil {
		return Plan{}, fmt.Errorf("looking up image: %w", err)
	}
	for at, port := range spec.Ports {
		wanted, err := resolvePort(ctx, services, fmt.Sprintf("spec.ports[%d]", at), port)
		if err != nil {
			return Plan{}, err
		}
		found.nics = append(found.nics, wanted)
	}
	if found.Pool, err = resolvePool(ctx, services, spec.FloatingIP); err != nil {
		return Plan{}, err
	}
	if spec.ServerGroup.Group != "" {
		if found.GroupID, err = ServerGroup(ctx, services.Compute, "spec.serverGroup.group", spec.ServerGroup.Group); err != nil {
			return Plan{}, fmt.Errorf("looking up server group: %w", err)
		}
	}
	return found, nil
}

func resolvePort(ctx context.Context, services *access.Services, field string, port infrav1.OpenStackPort) (nic, error) {
	id, err := Network(ctx, services.Network, field+".network", port.Network)
	if err != nil {
		return nic{}, fmt.Errorf("looking up network: %w", err)
	}
	wanted := nic{networkID: id}
	for at, fixed := range port.FixedIPs {
		subnet, err := Subnet(ctx, services.Network, fmt.Sprintf("%s.fixedIPs[%d].subnet", field, at), Subnetwork{NetworkID: id, Subnet: fixed.Subnet})
		if err != nil {
			return nic{}, fmt.Errorf("looking up subnet: %w", err)
		}
		wanted.fixedIPs = append(wanted.fixedIPs, ports.IP{SubnetID: subnet, IPAddress: fixed.Address})
	}
	if len(port.SecurityGroups) > 0 {
		if wanted.securityGroups, err = SecurityGroups(ctx, services.Network, field+".securityGroups", port.SecurityGroups); err != nil {
			return nic{}, fmt.Errorf("looking up security groups: %w", err)
		}
	}
	return wanted, nil
}

func resolvePool(ctx context.Context, services *access.Services, from infrav1.OpenStackFloatingIP) (Pool, error) {
	if from.Network == "" {
		return Pool{}, nil
	}
	id, err := Network(ctx, services.Network, "spec.floatingIP.network", from.Network)
	if err != nil || from.Subnet == "" {
		return Pool{NetworkID: id}, err
	}
	subnet, err := Subnet(ctx, services.Network, "spec.floatingIP.subnet", Subnetwork{NetworkID: id, Subnet: from.Subnet})
	return Pool{NetworkID: id, SubnetID: subnet}, err
}

// Ports returns the options of the creation of the ports, with the names of name.
func (p Plan) Ports(name func(at int) string) []ports.CreateOptsBuilder {
	var all []ports.CreateOptsBuilder
	for at, nic := range p.nics {
		spec := p.spec.Ports[at]
		options := ports.CreateOpts{NetworkID: nic.networkID, Name: name(at)}
		if len(nic.fixedIPs) > 0 {
			options.FixedIPs = nic.fixedIPs
		}
		if len(nic.securityGroups) > 0 {
			options.SecurityGroups = &nic.securityGroups
		}
		for _, pair := range spec.AllowedAddressPairs {
			options.AllowedAddressPairs = append(options.AllowedAddressPairs, ports.AddressPair{IPAddress: pair.Address, MACAddress: pair.MACAddress})
		}
		var builder ports.CreateOptsBuilder = options
		if ptr.Deref(spec.DisablePortSecurity, false) {
			options.SecurityGroups = &[]string{}
			builder = portsecurity.PortCreateOptsExt{CreateOptsBuilder: options, PortSecurityEnabled: ptr.To(false)}
		}
		if spec.VNICType != "" {
			builder = portsbinding.CreateOptsExt{CreateOptsBuilder: builder, VNICType: spec.VNICType}
		}
		all = append(all, builder)
	}
	return all
}

// Zones returns the available availability zones. The SDK reads their only page by AllPages alone.
func Zones(ctx context.Context, services *access.Services) ([]string, error) {
	page, err := availabilityzones.List(services.Compute).AllPages(access.WithBudget(ctx))
	if err != nil {
		return nil, err
	}
	all, err := availabilityzones.ExtractAvailabilityZones(page)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, zone := range all {
		if zone.ZoneState.Available {
			names = append(names, zone.ZoneName)
		}
	}
	return names, nil
}
