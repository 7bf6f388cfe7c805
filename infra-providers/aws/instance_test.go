// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	launched := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	nic := func(index int32, v4, v6 string) types.InstanceNetworkInterface {
		created := types.InstanceNetworkInterface{
			Attachment:         &types.InstanceNetworkInterfaceAttachment{DeviceIndex: &index},
			PrivateIpAddresses: []types.InstancePrivateIpAddress{{PrivateIpAddress: &v4}},
		}
		if v6 != "" {
			created.Ipv6Addresses = []types.InstanceIpv6Address{{Ipv6Address: &v6}, {Ipv6Address: aws.String("2001:db8::ffff")}}
		}
		return created
	}
	found := types.Instance{
		InstanceId: aws.String("i-1"), LaunchTime: &launched, Placement: &types.Placement{AvailabilityZone: aws.String("z")},
		Tags:            []types.Tag{{Key: aws.String(driver.TagMachineUID), Value: aws.String("u")}, {Key: aws.String(driver.TagMachine), Value: aws.String("m")}},
		State:           &types.InstanceState{Name: types.InstanceStateNameRunning},
		StateReason:     &types.StateReason{Message: aws.String("why")},
		PublicIpAddress: aws.String("203.0.113.1"), PrivateDnsName: aws.String("ip-10-0-0-1.internal"), PublicDnsName: aws.String("public"),
		NetworkInterfaces: []types.InstanceNetworkInterface{nic(1, "10.0.0.2", ""), {}, nic(0, "10.0.0.1", "2001:db8::1")},
	}
	want := driver.Instance{
		ID: "i-1", ProviderID: "aws:///z/i-1", Identity: driver.Identity{UID: "u", Name: "m", ProviderID: "aws:///z/i-1"},
		State: driver.Running, FailureDomain: "z", Created: launched,
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineInternalIP, Address: "10.0.0.2"},
			{Type: clusterv1.MachineExternalIP, Address: "203.0.113.1"},
			{Type: clusterv1.MachineInternalDNS, Address: "ip-10-0-0-1.internal"}, {Type: clusterv1.MachineHostName, Address: "ip-10-0-0-1.internal"},
			{Type: clusterv1.MachineInternalDNS, Address: "ip-10-0-0-1"},
			{Type: clusterv1.MachineExternalDNS, Address: "public"}, {Type: clusterv1.MachineInternalIP, Address: "2001:db8::1"},
		},
	}
	if diff := cmp.Diff(want, toInstance(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for state, want := range map[types.InstanceStateName]driver.Instance{
		types.InstanceStateNamePending:      {State: driver.Pending, PollAfter: pollInterval, Message: "why"},
		types.InstanceStateNameRunning:      {State: driver.Running},
		types.InstanceStateNameStopping:     {State: driver.Stopping, PollAfter: pollInterval, Message: "why"},
		types.InstanceStateNameStopped:      {State: driver.Stopped, Message: "why"},
		types.InstanceStateNameShuttingDown: {State: driver.Stopping, PollAfter: pollInterval, Message: "why"},
		types.InstanceStateNameTerminated:   {State: driver.Terminated, Message: "why"},
	} {
		found.State = &types.InstanceState{Name: state}
		got := toInstance(found)
		if diff := cmp.Diff(want, driver.Instance{State: got.State, PollAfter: got.PollAfter, Message: got.Message}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
	}
}

func TestParseProviderID(t *testing.T) {
	t.Parallel()
	for providerID, want := range map[string]string{
		"aws:///eu-central-1a/i-0123456789abcdef0": "i-0123456789abcdef0",
		"aws:///i-0123abcd":                        "i-0123abcd",
		"aws:///eu-central-1a/vm-1":                "",
		"aws:///eu-central-1a/":                    "",
		"sim:///zone-a/sim-1":                      "",
	} {
		id, ok := parseProviderID(providerID)
		if !ok {
			id = ""
		}
		if diff := cmp.Diff(want, id); diff != "" {
			t.Errorf("%s (-want +got):\n%s", providerID, diff)
		}
	}
}
