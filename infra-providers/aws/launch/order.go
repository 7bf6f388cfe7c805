// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch turns the spec of an AWSMachine into one RunInstances request. It looks up what the spec
// names by filter (image, subnets, security groups) and remembers the answers for a minute, so that a burst
// of machines of one template costs one lookup.
//
// It owns what is asked, not what becomes of it: tokens, retries and the kinds of errors are the driver's.
package launch

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// Order is one instance to launch.
type Order struct {
	Spec infrav1.AWSMachineSpec
	// Zone is where the instance has to be; empty leaves it to the subnet or to EC2.
	Zone string
	// Seed chooses among several subnets, always the same one for the same machine.
	Seed string
	// Tags are put on everything that is made.
	Tags     map[string]string
	Token    string
	UserData []byte
	Format   string
}

// Request returns the request for an order. It fails with InvalidConfigurationError when a filter matches
// nothing or the user data are too long, and with EC2's own errors otherwise.
func (l *Lookup) Request(ctx context.Context, order Order) (*ec2.RunInstancesInput, error) {
	spec := order.Spec
	userData, err := encode(order.UserData, order.Format)
	if err != nil {
		return nil, err
	}
	request := &ec2.RunInstancesInput{
		MinCount:                         aws.Int32(1),
		MaxCount:                         aws.Int32(1),
		ClientToken:                      aws.String(order.Token),
		InstanceType:                     types.InstanceType(spec.InstanceType),
		UserData:                         userData,
		KeyName:                          maybe(spec.KeyName),
		LaunchTemplate:                   launchTemplate(spec.LaunchTemplate),
		IamInstanceProfile:               profile(spec.InstanceProfile),
		InstanceMarketOptions:            market(spec.Spot),
		MetadataOptions:                  metadata(spec.Metadata),
		Placement:                        placement(spec.Placement, order.Zone),
		CapacityReservationSpecification: reservation(spec.CapacityReservation),
		TagSpecifications:                tagged(order.Tags, spec.Spot != nil),
	}
	if spec.CPU != (infrav1.AWSCPU{}) {
		request.CpuOptions = &types.CpuOptionsRequest{CoreCount: spec.CPU.Cores, ThreadsPerCore: spec.CPU.ThreadsPerCore}
	}
	if spec.DetailedMonitoring != nil {
		request.Monitoring = &types.RunInstancesMonitoringEnabled{Enabled: spec.DetailedMonitoring}
	}
	if err := l.image(ctx, spec, request); err != nil {
		return nil, err
	}
	return request, l.network(ctx, order, request)
}

// image puts the image and the volumes into the request.
func (l *Lookup) image(ctx context.Context, spec infrav1.AWSMachineSpec, request *ec2.RunInstancesInput) error {
	image, err := l.Image(ctx, spec)
	if err != nil {
		return err
	}
	request.ImageId = image.ImageId
	request.BlockDeviceMappings = volumes(image, spec)
	return nil
}

func launchTemplate(from infrav1.AWSLaunchTemplate) *types.LaunchTemplateSpecification {
	if from.ID == "" && from.Name == "" {
		return nil
	}
	return &types.LaunchTemplateSpecification{LaunchTemplateId: maybe(from.ID), LaunchTemplateName: maybe(from.Name), Version: maybe(from.Version)}
}

func profile(from string) *types.IamInstanceProfileSpecification {
	switch {
	case from == "":
		return nil
	case strings.HasPrefix(from, "arn:"):
		return &types.IamInstanceProfileSpecification{Arn: &from}
	default:
		return &types.IamInstanceProfileSpecification{Name: &from}
	}
}

// market asks for a spot instance that ends for good when it is reclaimed: a persistent request would make
// EC2 launch instances that nobody asked for.
func market(from *infrav1.AWSSpot) *types.InstanceMarketOptionsRequest {
	if from == nil {
		return nil
	}
	return &types.InstanceMarketOptionsRequest{
		MarketType: types.MarketTypeSpot,
		SpotOptions: &types.SpotMarketOptions{
			MaxPrice:                     maybe(from.MaxPrice),
			SpotInstanceType:             types.SpotInstanceTypeOneTime,
			InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
		},
	}
}

func metadata(from infrav1.AWSMetadata) *types.InstanceMetadataOptionsRequest {
	options := &types.InstanceMetadataOptionsRequest{
		HttpTokens:              types.HttpTokensState(from.Tokens),
		HttpEndpoint:            types.InstanceMetadataEndpointState(from.Endpoint),
		HttpPutResponseHopLimit: from.HopLimit,
	}
	if from.IPv6 != nil && *from.IPv6 {
		options.HttpProtocolIpv6 = types.InstanceMetadataProtocolStateEnabled
	}
	return options
}

func placement(from infrav1.AWSPlacement, zone string) *types.Placement {
	if from == (infrav1.AWSPlacement{}) && zone == "" {
		return nil
	}
	return &types.Placement{
		AvailabilityZone: maybe(zone),
		GroupName:        maybe(from.Group),
		PartitionNumber:  from.Partition,
		Tenancy:          types.Tenancy(from.Tenancy),
		HostId:           maybe(from.HostID),
	}
}

func reservation(from infrav1.AWSCapacityReservation) *types.CapacityReservationSpecification {
	switch {
	case from == (infrav1.AWSCapacityReservation{}):
		return nil
	case from.Preference != "":
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreference(from.Preference)}
	default:
		return &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{
			CapacityReservationId:               maybe(from.ID),
			CapacityReservationResourceGroupArn: maybe(from.ResourceGroupARN),
		}}
	}
}

// maybe leaves an empty string out of a request.
func maybe(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
