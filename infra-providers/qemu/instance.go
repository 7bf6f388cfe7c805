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

const scheme = "qemu:///"

// providerID is what the Node carries too. The machine's ID is unique over all hosts.
func providerID(hostName, id string) string { return scheme + hostName + "/" + id }

// instanceID derives the machine's ID from the identity, which is what makes creation idempotent.
func instanceID(id driver.Identity) string {
	if id.ProviderID != "" {
		return path.Base(id.ProviderID)
	}
	return "vm-" + string(id.UID)
}

// otherHost is the host that a provider ID names, unless that is ours. A provider that looked only at its own
// machines would take those of another host for gone.
func otherHost(id driver.Identity, ours string) string {
	named, found := strings.CutPrefix(id.ProviderID, scheme)
	if !found || path.Dir(named) == ours {
		return ""
	}
	return path.Dir(named)
}

// hardwareAddress derives an address of QEMU's range from the ID, so that it stays the same over restarts.
func hardwareAddress(id string) string {
	sum := sha256.Sum256([]byte(id))
	return net.HardwareAddr{0x52, 0x54, 0x00, sum[0], sum[1], sum[2]}.String()
}

// owned converts a machine that must belong to an identity.
func (d *Driver) owned(found host.Machine, id driver.Identity) (driver.Instance, error) {
	instance := d.toInstance(found)
	if err := id.Check(instance.Identity); err != nil {
		return driver.Instance{}, err
	}
	return instance, nil
}

func (d *Driver) toInstance(found host.Machine) driver.Instance {
	identity, _ := driver.FromTags(found.Tags)
	identity.ProviderID = found.ProviderID
	state, poll := toState(found.Phase)
	var addresses, reported []clusterv1.MachineAddress
	address := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: found.Address}
	switch {
	case found.Address == "":
	case found.Bridge != "":
		// The host's neighbour table has what the guest announces, which may be the address of another machine.
		reported = append(reported, address)
	default:
		addresses = append(addresses, address)
	}
	return driver.Instance{
		ID:            found.ID,
		ProviderID:    found.ProviderID,
		Identity:      identity,
		State:         state,
		Addresses:     append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: found.Hostname}),
		Reported:      reported,
		FailureDomain: d.hostName,
		Created:       found.Created,
		Message:       found.Message,
		PollAfter:     poll,
	}
}

// toState translates a phase. Changes are told; the pause is for a caller that missed one.
func toState(phase host.Phase) (driver.State, time.Duration) {
	switch phase {
	case host.Running:
		return driver.Running, 0
	case host.Stopped:
		return driver.Stopped, 0
	case host.Ending:
		return driver.Stopping, time.Second
	default:
		return driver.Pending, 5 * time.Second
	}
}
