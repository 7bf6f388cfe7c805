// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
)

// pollInterval is when an instance that starts or stops is read again.
const pollInterval = 5 * time.Second

// providerScheme begins the provider IDs. The cloud controller manager of Alibaba Cloud reads them with it and without it.
const providerScheme = "alicloud://"

// providerID is the one that the kubelet registers the Node with.
func (d *Driver) providerID(id string) string { return providerScheme + d.region + "." + id }

// normalizeProviderID returns the region and the instance's ID.
func normalizeProviderID(providerID string) string {
	return strings.TrimPrefix(providerID, providerScheme)
}

var instanceIDPattern = regexp.MustCompile(`^i-[0-9a-z]{1,60}$`)

// parseProviderID returns the instance's ID; ok is false for a provider ID that no instance of the region can have.
func (d *Driver) parseProviderID(providerID string) (id string, ok bool) {
	region, id, _ := strings.Cut(strings.TrimPrefix(providerID, providerScheme), ".")
	return id, region == d.region && instanceIDPattern.MatchString(id)
}

// toImage converts an image.
func toImage(found *ecs.DescribeImagesResponseBodyImagesImage) driver.Image {
	return driver.Image{ID: dara.StringValue(found.ImageId), Architecture: request.Architecture(found)}
}

// toInstance converts an instance.
func (d *Driver) toInstance(found *ecs.DescribeInstancesResponseBodyInstancesInstance) driver.Instance {
	tags := map[string]string{}
	if found.Tags != nil {
		for _, tag := range found.Tags.Tag {
			tags[dara.StringValue(tag.TagKey)] = dara.StringValue(tag.TagValue)
		}
	}
	identity, _ := driver.FromTags(tags)
	id := dara.StringValue(found.InstanceId)
	identity.ProviderID = d.providerID(id)
	instance := driver.Instance{
		ID:            id,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         toState(dara.StringValue(found.Status)),
		Addresses:     toAddresses(found),
		FailureDomain: dara.StringValue(found.ZoneId),
		Created:       parseTime(dara.StringValue(found.CreationTime)),
		Message:       lockMessage(found),
	}
	if instance.State == driver.Pending || instance.State == driver.Stopping {
		instance.PollAfter = pollInterval
	}
	return instance
}

// toState converts the status of an instance. One that is being created or started is pending.
func toState(status string) driver.State {
	switch status {
	case "Running":
		return driver.Running
	case "Stopping":
		return driver.Stopping
	case "Stopped":
		return driver.Stopped
	default:
		return driver.Pending
	}
}

// securityLock is the message of an instance that is locked for security reasons.
const securityLock = "ECS has locked the instance for security reasons"

// lockMessages are what the reasons mean for which ECS locks an instance, whose case differs between operations.
var lockMessages = map[string]string{
	"recycling":              "ECS reclaims the spot instance and is about to release it",
	"financial":              "ECS has locked the instance because a payment is overdue",
	"dedicatedhostfinancial": "ECS has locked the instance because a payment for its dedicated host is overdue",
	"security":               securityLock,
	"refunded":               "ECS has locked the instance because it was refunded",
}

// isLockedForSecurity reports whether ECS would release all disks with an instance, also those that are to be kept.
func isLockedForSecurity(instance driver.Instance) bool {
	return strings.Contains(instance.Message, securityLock)
}

// lockMessage returns why an instance is locked.
func lockMessage(found *ecs.DescribeInstancesResponseBodyInstancesInstance) string {
	if found.OperationLocks == nil {
		return ""
	}
	var messages []string
	for _, lock := range found.OperationLocks.LockReason {
		if message, ok := lockMessages[strings.ToLower(dara.StringValue(lock.LockReason))]; ok && !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	slices.Sort(messages)
	return strings.Join(messages, "; ")
}

// parseTime reads a time, which ECS writes with or without seconds.
func parseTime(text string) time.Time {
	for _, layout := range []string{"2006-01-02T15:04Z", time.RFC3339} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed
		}
	}
	return time.Time{}
}

// toAddresses returns those of the primary network interface: the private IPv4 address, the public or elastic one, the IPv6
// addresses; then the host's name. Other interfaces are attached later, as for pods, and their addresses are not the Node's.
func toAddresses(found *ecs.DescribeInstancesResponseBodyInstancesInstance) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address *string) {
		known := clusterv1.MachineAddress{Type: kind, Address: dara.StringValue(address)}
		if known.Address != "" && !slices.Contains(all, known) {
			all = append(all, known)
		}
	}
	if vpc := found.VpcAttributes; vpc != nil && vpc.PrivateIpAddress != nil {
		for _, address := range vpc.PrivateIpAddress.IpAddress {
			add(clusterv1.MachineInternalIP, address)
		}
	}
	if public := found.PublicIpAddress; public != nil {
		for _, address := range public.IpAddress {
			add(clusterv1.MachineExternalIP, address)
		}
	}
	if elastic := found.EipAddress; elastic != nil {
		add(clusterv1.MachineExternalIP, elastic.IpAddress)
	}
	if primary := primaryInterface(found); primary != nil && primary.Ipv6Sets != nil {
		for _, address := range primary.Ipv6Sets.Ipv6Set {
			add(clusterv1.MachineInternalIP, address.Ipv6Address)
		}
	}
	add(clusterv1.MachineHostName, found.HostName)
	add(clusterv1.MachineInternalDNS, found.HostName)
	return all
}

// primaryInterface returns the network interface that was created with an instance, or nil.
func primaryInterface(found *ecs.DescribeInstancesResponseBodyInstancesInstance) *ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterface {
	if found.NetworkInterfaces == nil {
		return nil
	}
	for _, nic := range found.NetworkInterfaces.NetworkInterface {
		if dara.StringValue(nic.Type) == "Primary" {
			return nic
		}
	}
	return nil
}

// byCreation sorts the oldest first.
func byCreation(a, b driver.Instance) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}
