// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// network puts subnets and security groups into the request: as network interfaces when there is a subnet,
// because EC2 takes public and IPv6 addresses only with one; without a subnet, what the launch template or
// the default VPC says holds.
func (l *Lookup) network(ctx context.Context, order Order, request *ec2.RunInstancesInput) error {
	spec := order.Spec
	groups, err := l.groups(ctx, "spec.securityGroups", spec.SecurityGroups)
	if err != nil {
		return err
	}
	if isZero(spec.Subnet) {
		request.SecurityGroupIds = groups
		return nil
	}
	subnet, err := l.subnet(ctx, "spec.subnet", spec.Subnet, order)
	if err != nil {
		return err
	}
	request.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
		DeviceIndex:              aws.Int32(0),
		DeleteOnTermination:      aws.Bool(true),
		SubnetId:                 &subnet,
		Groups:                   groups,
		AssociatePublicIpAddress: spec.PublicIP,
		Ipv6AddressCount:         spec.IPv6AddressCount,
	}}
	for i, further := range spec.NetworkInterfaces {
		field := fmt.Sprintf("spec.networkInterfaces[%d]", i)
		made, err := l.networkInterface(ctx, field, further, order)
		if err != nil {
			return err
		}
		made.DeviceIndex = aws.Int32(int32(i) + 1) //nolint:gosec // the CRD allows 14
		if made.Groups == nil {
			made.Groups = groups
		}
		request.NetworkInterfaces = append(request.NetworkInterfaces, made)
	}
	return nil
}

func (l *Lookup) networkInterface(ctx context.Context, field string, from infrav1.AWSNetworkInterface, order Order) (types.InstanceNetworkInterfaceSpecification, error) {
	subnet, err := l.subnet(ctx, field+".subnet", from.Subnet, order)
	if err != nil {
		return types.InstanceNetworkInterfaceSpecification{}, err
	}
	groups, err := l.groups(ctx, field+".securityGroups", from.SecurityGroups)
	if err != nil {
		return types.InstanceNetworkInterfaceSpecification{}, err
	}
	return types.InstanceNetworkInterfaceSpecification{
		DeleteOnTermination: aws.Bool(true),
		SubnetId:            &subnet,
		Groups:              groups,
		Ipv6AddressCount:    from.IPv6AddressCount,
		NetworkCardIndex:    from.NetworkCardIndex,
		InterfaceType:       maybe(from.Type),
	}, nil
}

// subnet returns the subnet of a machine. Of several it is the same one as long as that matches: EC2 keeps a token per
// zone, so a repeated request that went to another zone would make another instance.
func (l *Lookup) subnet(ctx context.Context, field string, want infrav1.AWSSelector, order Order) (string, error) {
	if want.ID != "" {
		return want.ID, nil
	}
	filters := append(filtersOf(want.Filters), filter("state", "available"))
	if order.Zone != "" {
		filters = append(filters, filter("availability-zone", order.Zone))
	}
	found, err := l.subnets(ctx, filters)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		where := "in the region"
		if order.Zone != "" {
			where = fmt.Sprintf("in zone %q", order.Zone)
		}
		return "", &driver.InvalidConfigurationError{Field: field + ".filters", Err: fmt.Errorf("no available subnet %s matches", where)}
	}
	return choose(order.Seed, found), nil
}

// choose returns the one of several that has the largest hash with the seed: another one only when that goes, or a
// larger one comes.
func choose(seed string, among []string) string {
	weight := func(id string) uint64 {
		sum := sha256.Sum256([]byte(seed + "/" + id))
		return binary.BigEndian.Uint64(sum[:])
	}
	return slices.MaxFunc(among, func(a, b string) int { return cmp.Compare(weight(a), weight(b)) })
}

// Place is the subnet that a request names, or else the zone; empty when EC2 or a launch template chooses.
func Place(request *ec2.RunInstancesInput) string {
	if len(request.NetworkInterfaces) > 0 {
		return aws.ToString(request.NetworkInterfaces[0].SubnetId)
	}
	if request.Placement != nil {
		return aws.ToString(request.Placement.AvailabilityZone)
	}
	return ""
}

// groups returns the security groups of all selectors, each once, in the order of the spec.
func (l *Lookup) groups(ctx context.Context, field string, want []infrav1.AWSSelector) (ids []string, err error) {
	for i, selector := range want {
		matching := []string{selector.ID}
		if selector.ID == "" {
			matching, err = l.securityGroups(ctx, filtersOf(selector.Filters))
			if err != nil {
				return nil, err
			}
			if len(matching) == 0 {
				return nil, &driver.InvalidConfigurationError{Field: fmt.Sprintf("%s[%d].filters", field, i), Err: errNoGroup}
			}
		}
		for _, id := range matching {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

func isZero(selector infrav1.AWSSelector) bool {
	return selector.ID == "" && len(selector.Filters) == 0
}
