// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// pollInterval is when an instance that starts or stops is read again.
const pollInterval = 5 * time.Second

// providerID is the one that the cloud controller manager of AWS writes into the Node.
func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

var instanceIDPattern = regexp.MustCompile(`^i-[0-9a-f]{1,32}$`)

// parseProviderID returns the instance's ID; ok is false for a provider ID that no instance can have.
func parseProviderID(providerID string) (id string, ok bool) {
	id = path.Base(providerID)
	return id, instanceIDPattern.MatchString(id)
}

// normalizeProviderID returns the instance's ID, which is unique over all zones and accounts.
func normalizeProviderID(providerID string) string {
	if id, ok := parseProviderID(providerID); ok {
		return id
	}
	return providerID
}

// toImage converts an image.
func toImage(found types.Image) driver.Image {
	return driver.Image{ID: aws.ToString(found.ImageId), Architecture: launch.Architecture(found)}
}

// toInstance converts an instance.
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
		Addresses:     toAddresses(found),
		FailureDomain: zone,
		Created:       aws.ToTime(found.LaunchTime),
	}
	if state == driver.Pending || state == driver.Stopping {
		instance.PollAfter = pollInterval
	}
	if found.StateReason != nil && state != driver.Running {
		instance.Message = aws.ToString(found.StateReason.Message)
	}
	return instance
}

// toState converts the state of an instance.
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

// toAddresses returns those, of those types and in that order, that the cloud controller manager of AWS gives the
// Node: private ones by interface, then the public one, then the names. IPv6 addresses count as internal.
// The first label of the private name is ours.
func toAddresses(found types.Instance) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address *string) {
		if aws.ToString(address) != "" {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: *address})
		}
	}
	interfaces := slices.SortedFunc(slices.Values(found.NetworkInterfaces), byDeviceIndex)
	for _, nic := range interfaces {
		for _, private := range nic.PrivateIpAddresses {
			add(clusterv1.MachineInternalIP, private.PrivateIpAddress)
		}
	}
	add(clusterv1.MachineExternalIP, found.PublicIpAddress)
	add(clusterv1.MachineInternalDNS, found.PrivateDnsName)
	add(clusterv1.MachineHostName, found.PrivateDnsName)
	if label, _, longer := strings.Cut(aws.ToString(found.PrivateDnsName), "."); longer {
		add(clusterv1.MachineInternalDNS, &label) // cloud-init's host name on Ubuntu
	}
	add(clusterv1.MachineExternalDNS, found.PublicDnsName)
	for _, nic := range interfaces {
		if len(nic.Ipv6Addresses) > 0 {
			add(clusterv1.MachineInternalIP, nic.Ipv6Addresses[0].Ipv6Address)
		}
	}
	return all
}

func byDeviceIndex(a, b types.InstanceNetworkInterface) int {
	return cmp.Or(cmp.Compare(deviceIndex(a), deviceIndex(b)), cmp.Compare(aws.ToString(a.NetworkInterfaceId), aws.ToString(b.NetworkInterfaceId)))
}

// deviceIndex sorts what is not attached yet to the end.
func deviceIndex(nic types.InstanceNetworkInterface) int32 {
	if nic.Attachment == nil || nic.Attachment.DeviceIndex == nil {
		return 1 << 30
	}
	return *nic.Attachment.DeviceIndex
}

// byCreation sorts terminated instances last, then the oldest first.
func byCreation(a, b driver.Instance) int {
	return cmp.Or(cmp.Compare(terminatedLast(a), terminatedLast(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

func terminatedLast(instance driver.Instance) int {
	if instance.State == driver.Terminated {
		return 1
	}
	return 0
}
