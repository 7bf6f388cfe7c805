// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// poll is when to look again at an instance that starts or stops.
const poll = 5 * time.Second

// providerID is what the cloud controller manager of AWS writes into the Node.
func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

var wellFormed = regexp.MustCompile(`^i-[0-9a-f]{1,32}$`)

// instanceID returns the instance's ID; ok is false for a provider ID that no instance can have.
func instanceID(providerID string) (id string, ok bool) {
	id = path.Base(providerID)
	return id, wellFormed.MatchString(id)
}

// toImage converts an image.
func toImage(found types.Image) driver.Image {
	return driver.Image{ID: aws.ToString(found.ImageId), Architecture: launch.Architecture(found)}
}

func toInstance(found types.Instance) driver.Instance {
	tags := map[string]string{}
	for _, tag := range found.Tags {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	identity, _ := driver.FromTags(tags)
	zone := ""
	if found.Placement != nil {
		zone = aws.ToString(found.Placement.AvailabilityZone)
	}
	id := aws.ToString(found.InstanceId)
	identity.ProviderID = providerID(zone, id)
	state := toState(found)
	instance := driver.Instance{
		ID:            id,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         state,
		Addresses:     addresses(found),
		FailureDomain: zone,
		Created:       aws.ToTime(found.LaunchTime),
	}
	if state == driver.Pending || state == driver.Stopping {
		instance.PollAfter = poll
	}
	if found.StateReason != nil && state != driver.Running {
		instance.Message = aws.ToString(found.StateReason.Message)
	}
	return instance
}

func toState(found types.Instance) driver.State {
	if found.State == nil {
		return driver.Pending
	}
	switch found.State.Name {
	case types.InstanceStateNameRunning:
		return driver.Running
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameStopping:
		return driver.Stopping
	case types.InstanceStateNameStopped:
		return driver.Stopped
	case types.InstanceStateNameTerminated:
		return driver.Terminated
	default:
		return driver.Pending
	}
}

// addresses are those, of those types and in that order, that the cloud controller manager of AWS gives the
// Node: private ones by interface, then the public one, then the names. IPv6 addresses count as internal.
func addresses(of types.Instance) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address *string) {
		if aws.ToString(address) != "" {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: *address})
		}
	}
	interfaces := slices.SortedFunc(slices.Values(of.NetworkInterfaces), byDevice)
	for _, nic := range interfaces {
		for _, private := range nic.PrivateIpAddresses {
			add(clusterv1.MachineInternalIP, private.PrivateIpAddress)
		}
	}
	add(clusterv1.MachineExternalIP, of.PublicIpAddress)
	add(clusterv1.MachineInternalDNS, of.PrivateDnsName)
	add(clusterv1.MachineHostName, of.PrivateDnsName)
	add(clusterv1.MachineExternalDNS, of.PublicDnsName)
	for _, nic := range interfaces {
		if len(nic.Ipv6Addresses) > 0 {
			add(clusterv1.MachineInternalIP, nic.Ipv6Addresses[0].Ipv6Address)
		}
	}
	return all
}

func byDevice(a, b types.InstanceNetworkInterface) int {
	return cmp.Or(cmp.Compare(device(a), device(b)), cmp.Compare(aws.ToString(a.NetworkInterfaceId), aws.ToString(b.NetworkInterfaceId)))
}

// device sorts what is not attached yet to the end.
func device(nic types.InstanceNetworkInterface) int32 {
	if nic.Attachment == nil || nic.Attachment.DeviceIndex == nil {
		return 1 << 30
	}
	return *nic.Attachment.DeviceIndex
}

// byAge sorts what lives before what is terminated, then the oldest first.
func byAge(a, b driver.Instance) int {
	return cmp.Or(cmp.Compare(gone(a), gone(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

func gone(instance driver.Instance) int {
	if instance.State == driver.Terminated {
		return 1
	}
	return 0
}
