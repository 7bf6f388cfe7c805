// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// Metadata of a server besides the ownership tags. The prefix drover.io is reserved.
const (
	// regionKey holds the region of a server whose provider ID names it.
	regionKey = "drover.io:region"
	// flavorKey and zoneKey hold the flavor and the zone of the request.
	flavorKey, zoneKey = "drover.io:flavor", "drover.io:zone"
	// groupKey marks a server in a group that the provider manages, and holds the UID of the Cluster in the group's name.
	groupKey = "drover.io:server-group"
)

// When a server that starts or stops is read again.
const pendingPollInterval, stoppingPollInterval = 5 * time.Second, 2 * time.Second

// dhcpDomain is the default of Nova's dhcp_domain, which users cannot read. maxNameLength is that of a name in DNS.
const dhcpDomain, maxNameLength = ".novalocal", 253

var providerIDPattern = regexp.MustCompile(`^openstack://[^/]*/([^/]+)$`)

// parseProviderID returns the ID of the server; empty for one that no server can have.
func parseProviderID(providerID string) string {
	if match := providerIDPattern.FindStringSubmatch(providerID); match != nil {
		return match[1]
	}
	return ""
}

// normalizeProviderID returns the server's ID, which is unique over all regions, and a UUID that Nova finds in any case.
func normalizeProviderID(providerID string) string {
	return strings.ToLower(cmp.Or(parseProviderID(providerID), providerID))
}

// providerID is that of cloud-provider-openstack: openstack:///<id>, with the region if it is configured so.
func providerID(server servers.Server) string {
	return fmt.Sprintf("openstack://%s/%s", server.Metadata[regionKey], server.ID)
}

// toImage converts an image.
func toImage(found images.Image) driver.Image {
	return driver.Image{ID: found.ID, Architecture: architectures[lookup.Property(found, "architecture")]}
}

// toInstance converts a server.
func toInstance(server servers.Server) driver.Instance {
	identity, _ := attachments.Identity(server.Metadata)
	identity.ProviderID = providerID(server)
	instance := driver.Instance{
		ID:            server.ID,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         toState(server),
		Addresses:     toAddresses(server),
		FailureDomain: server.AvailabilityZone,
		Created:       server.Created,
	}
	switch instance.State {
	case driver.Pending:
		instance.PollAfter = pendingPollInterval
	case driver.Stopping:
		instance.PollAfter, instance.Message = stoppingPollInterval, server.Status
	case driver.Stopped:
		instance.Message = server.Status
	}
	if server.Status == "ERROR" {
		// Nova reports the cause a moment after the failure.
		instance.Message = strings.TrimSuffix("ERROR: "+server.Fault.Message, ": ")
		// A server that never started never will: Nova does not retry.
		if server.LaunchedAt.IsZero() {
			instance.Guest = &driver.Guest{Failed: true, Message: server.Fault.Message}
		}
	}
	if instance.State == driver.Stopping {
		instance.Message += " (" + server.TaskState + ")"
	}
	return instance
}

// toState converts the status of a server.
func toState(server servers.Server) driver.State {
	switch server.TaskState {
	case "deleting", "soft-deleting":
		return driver.Stopping
	}
	switch server.Status {
	case "ACTIVE", "REBOOT", "HARD_REBOOT", "PASSWORD", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING":
		return driver.Running
	case "DELETED", "SOFT_DELETED":
		return driver.Terminated
	case "SHUTOFF", "SUSPENDED", "PAUSED", "RESCUE", "SHELVED", "SHELVED_OFFLOADED", "ERROR":
		return driver.Stopped
	default:
		return driver.Pending
	}
}

// toAddresses returns the addresses with the types of cloud-provider-openstack: fixed ones are internal, floating ones and
// the access addresses are external. The host name is the server's name; with Nova's domain it is the one in the metadata,
// which RHEL and Rocky Linux take.
func toAddresses(server servers.Server) []clusterv1.MachineAddress {
	var internal, external []clusterv1.MachineAddress
	for _, network := range slices.Sorted(maps.Keys(server.Addresses)) {
		for _, known := range networkAddresses(server.Addresses[network]) {
			if known.floating {
				external = append(external, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: known.String()})
				continue
			}
			internal = append(internal, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: known.String()})
		}
	}
	for _, address := range []string{server.AccessIPv4, server.AccessIPv6} {
		if address != "" {
			external = append(external, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: address})
		}
	}
	all := append(internal, external...)
	slices.SortStableFunc(all, func(a, b clusterv1.MachineAddress) int { return internalFirst(a) - internalFirst(b) })
	all = append(slices.Compact(all), clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: server.Name})
	if fqdn := server.Name + dhcpDomain; len(fqdn) <= maxNameLength {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: fqdn})
	}
	return all
}

// address is one address of a port.
type address struct {
	netip.Addr
	port     int
	floating bool
}

// networkAddresses returns the addresses in one network. Nova keeps the order of a server's ports, but not that of a port's
// addresses: IPv4 is first.
func networkAddresses(in any) (all []address) {
	entries, _ := in.([]any)
	ports := map[string]int{}
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		text, _ := fields["addr"].(string)
		mac, _ := fields["OS-EXT-IPS-MAC:mac_addr"].(string)
		if _, known := ports[mac]; !known {
			ports[mac] = len(ports)
		}
		if parsed, err := netip.ParseAddr(text); err == nil {
			all = append(all, address{Addr: parsed, port: ports[mac], floating: fields["OS-EXT-IPS:type"] == "floating"})
		}
	}
	slices.SortFunc(all, func(a, b address) int { return cmp.Or(a.port-b.port, a.Compare(b.Addr)) })
	return all
}

// internalFirst sorts internal addresses before external ones.
func internalFirst(address clusterv1.MachineAddress) int {
	if address.Type == clusterv1.MachineInternalIP {
		return 0
	}
	return 1
}
