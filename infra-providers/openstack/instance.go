// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
)

// Metadata of a server besides the ownership tags. All of it starts with drover.io, which users may not.
const (
	// regionKey holds the region of a server whose provider ID names it.
	regionKey = "drover.io:region"
	// flavorKey and zoneKey hold the place that was asked for.
	flavorKey, zoneKey = "drover.io:flavor", "drover.io:zone"
	// groupKey marks a server in a group that the provider keeps and holds the Cluster that it is called after.
	groupKey = "drover.io:server-group"
)

// How soon to look again while a server starts or stops.
const pendingPoll, stoppingPoll = 5 * time.Second, 2 * time.Second

var providerIDForm = regexp.MustCompile(`^openstack://[^/]*/([^/]+)$`)

// instanceID is the server that a provider ID names; empty when it names none.
func instanceID(providerID string) string {
	if match := providerIDForm.FindStringSubmatch(providerID); match != nil {
		return match[1]
	}
	return ""
}

// providerID is what cloud-provider-openstack writes: openstack:///<id>, with the region if it is told so.
func providerID(server servers.Server) string {
	return fmt.Sprintf("openstack://%s/%s", server.Metadata[regionKey], server.ID)
}

// owned converts a server that must belong to an identity.
func owned(server servers.Server, id driver.Identity) (driver.Instance, error) {
	instance := toInstance(server)
	if err := id.Check(instance.Identity); err != nil {
		return driver.Instance{}, err
	}
	return instance, nil
}

func toInstance(server servers.Server) driver.Instance {
	identity, _ := attachments.Identity(server.Metadata)
	identity.ProviderID = providerID(server)
	instance := driver.Instance{
		ID:            server.ID,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         toState(server),
		Addresses:     addresses(server),
		FailureDomain: server.AvailabilityZone,
		Created:       server.Created,
	}
	switch instance.State {
	case driver.Pending:
		instance.PollAfter = pendingPoll
	case driver.Stopping:
		instance.PollAfter, instance.Message = stoppingPoll, server.Status
	case driver.Stopped:
		instance.Message = server.Status
	}
	if server.Status == "ERROR" {
		// Nova says why a moment after it says so.
		instance.Message = strings.TrimSuffix("ERROR: "+server.Fault.Message, ": ")
		// What never started never will: Nova does not try again.
		if server.LaunchedAt.IsZero() {
			instance.Guest = &driver.Guest{Failed: true, Message: server.Fault.Message}
		}
	}
	if instance.State == driver.Stopping {
		instance.Message += " (" + server.TaskState + ")"
	}
	return instance
}

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

// addresses are typed as cloud-provider-openstack does: fixed ones are internal, floating ones and the
// access addresses are external. The host is called what the server is called.
func addresses(server servers.Server) []clusterv1.MachineAddress {
	var internal, external []clusterv1.MachineAddress
	for _, network := range slices.Sorted(maps.Keys(server.Addresses)) {
		for _, known := range shown(server.Addresses[network]) {
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
	slices.SortStableFunc(all, func(a, b clusterv1.MachineAddress) int { return order(a) - order(b) })
	return append(slices.Compact(all), clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: server.Name})
}

// address is one address of a port.
type address struct {
	netip.Addr
	port     int
	floating bool
}

// shown are the addresses in one network. Nova keeps the order of a server's ports, but
// not that of a port's addresses: IPv4 comes first.
func shown(in any) (all []address) {
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

// order puts internal addresses before external ones.
func order(address clusterv1.MachineAddress) int {
	if address.Type == clusterv1.MachineInternalIP {
		return 0
	}
	return 1
}

// shortOf is true for a server that the scheduler found no host for. Nova accepts a server first and looks
// for room afterwards; it has no error code for the lack of it. What tells is that the server failed with
// the scheduler's status before any host had it: no host and no start.
func shortOf(server servers.Server) bool {
	return server.Status == "ERROR" && server.HostID == "" && server.LaunchedAt.IsZero() && server.Fault.Code == http.StatusInternalServerError
}
