// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"crypto/sha256"
	"net"
	"path"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
)

const providerIDPrefix = "qemu:///"

// When a machine that starts or stops is read again.
const pendingPollInterval, stoppingPollInterval = 5 * time.Second, time.Second

// providerID is also that of the Node. The machine's ID is unique over all hosts.
func providerID(hostName, id string) string { return providerIDPrefix + hostName + "/" + id }

// normalizeProviderID returns the ID, as instanceID does.
func normalizeProviderID(providerID string) string { return path.Base(providerID) }

// instanceID derives the machine's ID from the identity, which makes the creation idempotent.
func instanceID(id driver.Identity) string {
	if id.ProviderID != "" {
		return path.Base(id.ProviderID)
	}
	return "vm-" + string(id.UID)
}

// otherHost returns the host in a provider ID, unless it is this one. Without it a provider would report the machines of
// another host as not found.
func otherHost(id driver.Identity, hostName string) string {
	named, found := strings.CutPrefix(id.ProviderID, providerIDPrefix)
	if !found || path.Dir(named) == hostName {
		return ""
	}
	return path.Dir(named)
}

// macAddress derives an address in QEMU's range from the ID, so that it is the same after a restart.
func macAddress(id string) string {
	sum := sha256.Sum256([]byte(id))
	return net.HardwareAddr{0x52, 0x54, 0x00, sum[0], sum[1], sum[2]}.String()
}

// toInstance converts a machine.
func (d *Driver) toInstance(found host.Machine) driver.Instance {
	identity, _ := driver.FromTags(found.Tags)
	identity.ProviderID = found.ProviderID
	state, pollAfter := toState(found.Phase)
	addresses, reported := toAddresses(found)
	return driver.Instance{
		ID:            found.ID,
		ProviderID:    found.ProviderID,
		Identity:      identity,
		State:         state,
		Addresses:     addresses,
		Reported:      reported,
		FailureDomain: d.hostName,
		Created:       found.Created,
		Message:       found.Message,
		PollAfter:     pollAfter,
	}
}

// toAddresses returns the addresses that the host assigned and those that the guest reports. On a bridge, the host's
// neighbour table has the address that the guest announces, which may be that of another machine.
func toAddresses(found host.Machine) (assigned, reported []clusterv1.MachineAddress) {
	internal := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: found.Address}
	switch {
	case found.Address == "":
	case found.Bridge != "":
		reported = append(reported, internal)
	default:
		assigned = append(assigned, internal)
	}
	return append(assigned, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: found.Hostname}), reported
}

// toState converts a phase, and returns when to read the machine again in case the caller missed a notification.
func toState(phase host.Phase) (driver.State, time.Duration) {
	switch phase {
	case host.Running:
		return driver.Running, 0
	case host.Stopped:
		return driver.Stopped, 0
	case host.Deleting:
		return driver.Stopping, stoppingPollInterval
	default:
		return driver.Pending, pendingPollInterval
	}
}
