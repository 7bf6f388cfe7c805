// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch turns the spec of an AWSMachine into one RunInstances request. It looks up what the spec
// names by filter (image, subnets, security groups) and caches the answers for a minute, so that a burst of machines of one
// template costs one lookup.
//
// It owns the request and nothing after it: client tokens, retries and error kinds are the driver's.
package launch

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// Input describes one instance to launch.
type Input struct {
	Spec infrav1.AWSMachineSpec
	// Zone is the zone of the instance; empty means that of the subnet, or one that EC2 chooses.
	Zone string
	// Seed chooses among several subnets, always the same one for the same machine.
	Seed string
	// Tags are the tags of every resource that is created.
	Tags     map[string]string
	Token    string
	UserData []byte
	Format   string
}

// Request returns the request for an input. It fails with InvalidConfigurationError when a filter matches
// nothing or the user data is too long, and with EC2's own errors otherwise.
func (l *Lookup) Request(ctx context.Context, input Input) (*ec2.RunInstancesInput, error) {
	spec := input.Spec
	userData, err := encodeUserData(input.UserData, input.Format)
	if err != nil {
		return nil, err
	}
	request := &ec2.RunInstancesInput{
		MinCount:                         aws.Int32(1),
		MaxCount:                         aws.Int32(1),
		ClientToken:                      aws.String(input.Token),
		InstanceType:                     types.InstanceType(spec.InstanceType),
		UserData:                         userData,
		KeyName:                          nonEmpty(spec.KeyName),
		LaunchTemplate:                   launchTemplate(spec.LaunchTemplate),
		IamInstanceProfile:               instanceProfile(spec.InstanceProfile),
		InstanceMarketOptions:            marketOptions(spec.Spot),
		MetadataOptions:                  metadataOptions(spec.Metadata),
		Placement:                        placement(spec.Placement, input.Zone),
		CapacityReservationSpecification: capacityReservation(spec.CapacityReservation),
		TagSpecifications:                tagSpecifications(input.Tags, spec.Spot != nil),
	}
	if spec.CPU != (infrav1.AWSCPU{}) {
		request.CpuOptions = &types.CpuOptionsRequest{CoreCount: spec.CPU.Cores, ThreadsPerCore: spec.CPU.ThreadsPerCore}
	}
	if spec.DetailedMonitoring != nil {
		request.Monitoring = &types.RunInstancesMonitoringEnabled{Enabled: spec.DetailedMonitoring}
	}
	if err := l.addImage(ctx, spec, request); err != nil {
		return nil, err
	}
	return request, l.addNetwork(ctx, input, request)
}

// addImage adds the image and the volumes to the request.
func (l *Lookup) addImage(ctx context.Context, spec infrav1.AWSMachineSpec, request *ec2.RunInstancesInput) error {
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
	return &types.LaunchTemplateSpecification{LaunchTemplateId: nonEmpty(from.ID), LaunchTemplateName: nonEmpty(from.Name), Version: nonEmpty(from.Version)}
}

func instanceProfile(from string) *types.IamInstanceProfileSpecification {
	switch {
	case from == "":
		return nil
	case strings.HasPrefix(from, "arn:"):
		return &types.IamInstanceProfileSpecification{Arn: &from}
	default:
		return &types.IamInstanceProfileSpecification{Name: &from}
	}
}

// marketOptions requests a spot instance that is terminated when it is reclaimed: with a persistent request EC2 would
// launch further instances by itself.
func marketOptions(from *infrav1.AWSSpot) *types.InstanceMarketOptionsRequest {
	if from == nil {
		return nil
	}
	return &types.InstanceMarketOptionsRequest{
		MarketType: types.MarketTypeSpot,
		SpotOptions: &types.SpotMarketOptions{
			MaxPrice:                     nonEmpty(from.MaxPrice),
			SpotInstanceType:             types.SpotInstanceTypeOneTime,
			InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
		},
	}
}

func metadataOptions(from infrav1.AWSMetadata) *types.InstanceMetadataOptionsRequest {
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
		AvailabilityZone: nonEmpty(zone),
		GroupName:        nonEmpty(from.Group),
		PartitionNumber:  from.Partition,
		Tenancy:          types.Tenancy(from.Tenancy),
		HostId:           nonEmpty(from.HostID),
	}
}

func capacityReservation(from infrav1.AWSCapacityReservation) *types.CapacityReservationSpecification {
	switch {
	case from == (infrav1.AWSCapacityReservation{}):
		return nil
	case from.Preference != "":
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreference(from.Preference)}
	default:
		return &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{
			CapacityReservationId:               nonEmpty(from.ID),
			CapacityReservationResourceGroupArn: nonEmpty(from.ResourceGroupARN),
		}}
	}
}

// nonEmpty returns nil for an empty string, which leaves the parameter out of a request.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
