// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

// providerIDPrefix is that of the cloud controller manager of Hetzner Cloud.
const providerIDPrefix = "hcloud://"

// pollInterval is when a server that starts or stops is read again.
const pollInterval = 5 * time.Second

func providerID(id int64) string { return providerIDPrefix + strconv.FormatInt(id, 10) }

// parseProviderID is the reverse of providerID; ok is false for one that no server can have.
func parseProviderID(providerID string) (id int64, ok bool) {
	digits, ok := strings.CutPrefix(providerID, providerIDPrefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil && id > 0 && strconv.FormatInt(id, 10) == digits
}

// toImage converts an image.
func toImage(found *hcloud.Image) driver.Image {
	return driver.Image{ID: strconv.FormatInt(found.ID, 10), Architecture: architectures[found.Architecture]}
}

// toInstance converts a server.
func toInstance(server *hcloud.Server) driver.Instance {
	identity, _ := driver.FromTags(server.Labels)
	identity.ProviderID = providerID(server.ID)
	instance := driver.Instance{
		ID:         strconv.FormatInt(server.ID, 10),
		ProviderID: identity.ProviderID,
		Identity:   identity,
		State:      toState(server.Status),
		Addresses:  toAddresses(server),
		Created:    server.Created,
	}
	if server.Location != nil {
		instance.FailureDomain = server.Location.Name
	}
	if instance.State == driver.Pending || instance.State == driver.Stopping {
		instance.PollAfter = pollInterval
		instance.Message = "server is " + string(server.Status)
	}
	return instance
}

// toState converts the status of a server. An unknown status counts neither as deleted nor as stopped.
func toState(status hcloud.ServerStatus) driver.State {
	switch status {
	case hcloud.ServerStatusRunning:
		return driver.Running
	case hcloud.ServerStatusOff:
		return driver.Stopped
	case hcloud.ServerStatusStopping, hcloud.ServerStatusDeleting:
		return driver.Stopping
	default: // initializing, starting, migrating, rebuilding, unknown
		return driver.Pending
	}
}

// toAddresses returns those that the cloud controller manager gives the Node, and the private ones.
func toAddresses(server *hcloud.Server) []clusterv1.MachineAddress {
	all := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: server.Name}}
	private := slices.SortedFunc(slices.Values(server.PrivateNet), func(a, b hcloud.ServerPrivateNet) int {
		return cmp.Compare(a.Network.ID, b.Network.ID)
	})
	for _, network := range private {
		if len(network.IP) > 0 {
			all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: network.IP.String()})
		}
	}
	if ip := server.PublicNet.IPv4; !ip.IsUnspecified() {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: ip.IP.String()})
	}
	if ip := server.PublicNet.IPv6; !ip.IsUnspecified() {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: firstHost(ip.IP).String()})
	}
	return all
}

// firstHost returns the address of a server in its public network: the network's address plus one.
func firstHost(network net.IP) net.IP {
	host := slices.Clone(network.To16())
	host[len(host)-1]++
	return host
}
