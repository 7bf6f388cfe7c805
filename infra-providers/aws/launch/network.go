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

// addNetwork adds subnets and security groups to the request: as network interfaces when there is a subnet, because EC2
// accepts public and IPv6 addresses only on one; without a subnet, that of the launch template or of the default VPC
// applies.
func (l *Lookup) addNetwork(ctx context.Context, input Input, request *ec2.RunInstancesInput) error {
	spec := input.Spec
	groups, err := l.resolveSecurityGroups(ctx, "spec.securityGroups", spec.SecurityGroups)
	if err != nil {
		return err
	}
	if isZero(spec.Subnet) {
		request.SecurityGroupIds = groups
		return nil
	}
	subnet, err := l.resolveSubnet(ctx, "spec.subnet", spec.Subnet, input)
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
	for i, additional := range spec.NetworkInterfaces {
		field := fmt.Sprintf("spec.networkInterfaces[%d]", i)
		nic, err := l.networkInterface(ctx, field, additional, input)
		if err != nil {
			return err
		}
		nic.DeviceIndex = aws.Int32(int32(i) + 1) //nolint:gosec // the CRD allows 14
		if nic.Groups == nil {
			nic.Groups = groups
		}
		request.NetworkInterfaces = append(request.NetworkInterfaces, nic)
	}
	return nil
}

func (l *Lookup) networkInterface(ctx context.Context, field string, from infrav1.AWSNetworkInterface, input Input) (types.InstanceNetworkInterfaceSpecification, error) {
	subnet, err := l.resolveSubnet(ctx, field+".subnet", from.Subnet, input)
	if err != nil {
		return types.InstanceNetworkInterfaceSpecification{}, err
	}
	groups, err := l.resolveSecurityGroups(ctx, field+".securityGroups", from.SecurityGroups)
	if err != nil {
		return types.InstanceNetworkInterfaceSpecification{}, err
	}
	return types.InstanceNetworkInterfaceSpecification{
		DeleteOnTermination: aws.Bool(true),
		SubnetId:            &subnet,
		Groups:              groups,
		Ipv6AddressCount:    from.IPv6AddressCount,
		NetworkCardIndex:    from.NetworkCardIndex,
		InterfaceType:       nonEmpty(from.Type),
	}, nil
}

// resolveSubnet returns the subnet of a machine. Of several it is the same one as long as that matches: EC2 stores client
// tokens per zone, so a repeated request in another zone would create another instance.
func (l *Lookup) resolveSubnet(ctx context.Context, field string, want infrav1.AWSSelector, input Input) (string, error) {
	if want.ID != "" {
		return want.ID, nil
	}
	filters := append(toFilters(want.Filters), filter("state", "available"))
	if input.Zone != "" {
		filters = append(filters, filter("availability-zone", input.Zone))
	}
	found, err := l.subnets(ctx, filters)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		where := "in the region"
		if input.Zone != "" {
			where = fmt.Sprintf("in zone %q", input.Zone)
		}
		return "", &driver.InvalidConfigurationError{Field: field + ".filters", Err: fmt.Errorf("no available subnet %s matches", where)}
	}
	return chooseSubnet(input.Seed, found), nil
}

// chooseSubnet returns the subnet with the largest hash with the seed. It changes only when that subnet disappears or one
// with a larger hash is added.
func chooseSubnet(seed string, subnets []string) string {
	weight := func(id string) uint64 {
		sum := sha256.Sum256([]byte(seed + "/" + id))
		return binary.BigEndian.Uint64(sum[:])
	}
	return slices.MaxFunc(subnets, func(a, b string) int { return cmp.Compare(weight(a), weight(b)) })
}

// Place returns the subnet in a request, or else the zone; empty when EC2 or a launch template chooses it.
func Place(request *ec2.RunInstancesInput) string {
	if len(request.NetworkInterfaces) > 0 {
		return aws.ToString(request.NetworkInterfaces[0].SubnetId)
	}
	if request.Placement != nil {
		return aws.ToString(request.Placement.AvailabilityZone)
	}
	return ""
}

// resolveSecurityGroups returns the security groups of all selectors, each once, in the order of the spec.
func (l *Lookup) resolveSecurityGroups(ctx context.Context, field string, want []infrav1.AWSSelector) (ids []string, err error) {
	for i, selector := range want {
		matching := []string{selector.ID}
		if selector.ID == "" {
			matching, err = l.securityGroups(ctx, toFilters(selector.Filters))
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
