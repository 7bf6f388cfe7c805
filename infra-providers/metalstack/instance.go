// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"strings"
	"time"

	"github.com/metal-stack/metal-go/api/models"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

// pollInterval is the pause between reads of a machine that is being installed, which takes minutes.
const pollInterval = 15 * time.Second

// phonedHome is the event of a machine whose operating system runs, and alive its liveliness.
const (
	phonedHome = "Phoned Home"
	alive      = "Alive"
)

const providerScheme = "metal://"

// parseProviderID returns the ID of a machine. The cloud controller manager of metal-stack writes metal://<partition>/<ID>;
// earlier ones, and Gardener, have metal:///<partition>/<ID>.
func parseProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerScheme)
	partition, id, split := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return id, ok && split && idPattern.MatchString(partition) && idPattern.MatchString(id)
}

// normalizeProviderID returns the machine's ID, which is unique over all partitions.
func normalizeProviderID(providerID string) string {
	if id, ok := parseProviderID(providerID); ok {
		return id
	}
	return providerID
}

// toInstance converts a machine that is allocated.
func toInstance(found *models.V1MachineResponse) driver.Instance {
	allocation := found.Allocation
	partition := ""
	if found.Partition != nil {
		partition = value(found.Partition.ID)
	}
	instance := driver.Instance{
		ID: value(found.ID), ProviderID: providerScheme + partition + "/" + value(found.ID), Identity: identityOf(found),
		State: driver.Pending, FailureDomain: partition, Addresses: machineAddresses(allocation), Created: time.Time(value(allocation.Created)),
		Message: messageOf(found), PollAfter: pollInterval,
	}
	instance.Identity.ProviderID = instance.ProviderID
	if isInstalled(found) {
		instance.State, instance.PollAfter = driver.Running, 0
	}
	return instance
}

// isInstalled reports whether a machine boots from its disk: the installer reports from what, before it does so.
func isInstalled(found *models.V1MachineResponse) bool {
	return found.Allocation.BootInfo != nil || value(found.Allocation.Succeeded) || lastEvent(found) == phonedHome
}

// lastEvent returns the newest event of a machine.
func lastEvent(found *models.V1MachineResponse) string {
	if found.Events == nil || len(found.Events.Log) == 0 || found.Events.Log[0] == nil {
		return ""
	}
	return value(found.Events.Log[0].Event)
}

// messageOf returns what an operator has to know about a machine. It has no times.
func messageOf(found *models.V1MachineResponse) string {
	var all []string
	if isLocked(found) {
		all = append(all, "the machine is locked")
	}
	if found.Events != nil && value(found.Events.CrashLoop) {
		all = append(all, "its installation fails again and again")
	}
	if !isInstalled(found) && lastEvent(found) != "" {
		all = append(all, "the last event is "+lastEvent(found))
	}
	if state := value(found.Liveliness); isInstalled(found) && state != "" && state != alive {
		all = append(all, "its liveliness is "+state)
	}
	return strings.Join(all, "; ")
}

// isLocked reports whether a machine cannot be freed.
func isLocked(found *models.V1MachineResponse) bool {
	return found.State != nil && value(found.State.Value) == models.V1MachineStateValueLOCKED
}

// identityOf returns the identity that the tags of a machine name. Firewalls have none: Drover allocates none.
func identityOf(found *models.V1MachineResponse) driver.Identity {
	if value(found.Allocation.Role) != models.V1MachineAllocationRoleMachine {
		return driver.Identity{}
	}
	id, _ := driver.FromTags(fromTags(found.Tags))
	return id
}

// machineAddresses returns the addresses that metal-stack gave a machine, and the name that it was allocated with.
func machineAddresses(of *models.V1MachineAllocation) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address string) {
		if address != "" {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: address})
		}
	}
	for _, private := range []bool{true, false} {
		for _, network := range of.Networks {
			kind := clusterv1.MachineExternalIP
			if private {
				kind = clusterv1.MachineInternalIP
			}
			if network == nil || value(network.Underlay) || value(network.Private) != private {
				continue
			}
			for _, address := range network.Ips {
				add(kind, address)
			}
		}
	}
	add(clusterv1.MachineHostName, value(of.Hostname))
	add(clusterv1.MachineInternalDNS, value(of.Hostname))
	return all
}
