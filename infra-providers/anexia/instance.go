// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

const (
	scheme = "anexia://"
	// pollInterval is the pause before an instance that changes is read again.
	pollInterval = 10 * time.Second
	// addressPollInterval is for one that runs and does not have all its addresses yet.
	addressPollInterval = 15 * time.Second
)

func toProviderID(vm string) string { return scheme + vm }

// parseProviderID returns the identifier of a virtual machine, or nothing.
func parseProviderID(id string) string {
	vm, ok := strings.CutPrefix(id, scheme)
	if !ok || strings.ContainsFunc(vm, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return ""
	}
	return vm
}

// toListed converts what a list shows. The candidate is the machine whose name it may have.
func (d *Driver) toListed(listed vm, candidate driver.Identity, known record) driver.Instance {
	instance := driver.Instance{ID: listed.Identifier, ProviderID: toProviderID(listed.Identifier), State: driver.Pending, PollAfter: pollInterval, Created: known.Requested}
	if parsed, ok := parseName(listed.Name); ok {
		instance.Identity = parsed.identity(candidate)
	}
	instance.Identity.ProviderID = instance.ProviderID
	switch {
	case known.Removal != "" && known.VM == listed.Identifier:
		instance.State, instance.Message = driver.Stopping, "the virtual machine is being deprovisioned"
	case !known.Failed.IsZero():
		instance.State, instance.Message, instance.PollAfter = driver.Stopped, "the provisioning failed: "+known.Reason, 0
	}
	return instance
}

// toInstance converts a virtual machine that was read.
func (d *Driver) toInstance(read *info, candidate driver.Identity, known record) driver.Instance {
	instance := d.toListed(read.vm, candidate, known)
	if read.AvailabilityZone != nil {
		instance.FailureDomain = read.AvailabilityZone.Identifier
	}
	instance.Addresses, instance.Reported = toAddresses(read.Network, known)
	switch {
	case instance.State == driver.Stopping:
		return instance
	case known.Failed.IsZero():
		instance.State, instance.Message = toState(read.Status)
	}
	if conflict, ok := d.conflicts.Get(read.Identifier); ok {
		instance.Message = conflict
	}
	switch {
	case instance.State == driver.Pending:
	case instance.State == driver.Running && d.awaitsAddresses(instance, known):
		instance.PollAfter = addressPollInterval
	default:
		instance.PollAfter = 0
	}
	return instance
}

// reading is what was read of a virtual machine, and when.
type reading struct {
	info *info
	at   time.Time
}

// remember keeps for the lists what was read now of a virtual machine that is settled.
func (d *Driver) remember(read *info, shown driver.Instance) {
	if isSettled(shown) {
		d.infos.Set(read.Identifier, reading{read, d.clock.Now()})
		return
	}
	d.infos.Delete(read.Identifier)
}

// isSettled reports whether a virtual machine runs and nothing more is awaited of it.
func isSettled(shown driver.Instance) bool {
	return shown.State == driver.Running && shown.PollAfter == 0
}

// awaitsAddresses reports whether a new virtual machine does not show every address yet that was reserved for it.
func (d *Driver) awaitsAddresses(shown driver.Instance, known record) bool {
	return len(shown.Addresses) < len(known.Addresses) && d.clock.Since(known.Requested) < provisioningTime
}

// toState converts the state of a virtual machine. Those are documented that a client of the Engine uses; of another one it is not
// known whether it is left by itself.
func toState(status string) (driver.State, string) {
	switch status {
	case "poweredOn":
		return driver.Running, ""
	case "poweredOff", "suspended":
		return driver.Stopped, "the virtual machine is " + status
	default:
		return driver.Pending, "the state of the virtual machine is " + status
	}
}

// toAddresses returns the addresses that were reserved for a machine, and the others, which its guest may have reported.
func toAddresses(networks []network, known record) (assigned, reported []clusterv1.MachineAddress) {
	for _, network := range networks {
		for _, text := range slices.Concat(network.IPv4, network.IPv6) {
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
				continue
			}
			address := clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: text}
			if ip.IsPrivate() {
				address.Type = clusterv1.MachineInternalIP
			}
			if known.hasIP(ip) {
				assigned = append(assigned, address)
			} else {
				reported = append(reported, address)
			}
		}
	}
	return assigned, reported
}
