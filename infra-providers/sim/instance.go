// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"path"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/sim/hypervisor"
)

const providerIDPrefix = "sim:///"

// providerID is also that of the Node. The instance's ID is unique over all zones.
func providerID(zone, id string) string { return providerIDPrefix + zone + "/" + id }

// normalizeProviderID returns the ID, as instanceID does.
func normalizeProviderID(providerID string) string { return path.Base(providerID) }

// instanceID derives the instance's ID from the identity, which makes the creation idempotent.
func instanceID(id driver.Identity) string {
	if id.ProviderID != "" {
		return path.Base(id.ProviderID)
	}
	return "sim-" + string(id.UID)
}

// toInstance converts an instance.
func toInstance(found hypervisor.Instance) driver.Instance {
	identity, _ := driver.FromTags(found.Tags)
	identity.ProviderID = found.ProviderID
	return driver.Instance{
		ID:            found.ID,
		ProviderID:    found.ProviderID,
		Identity:      identity,
		State:         toState(found),
		Addresses:     toAddresses(found),
		FailureDomain: found.Zone,
		Created:       found.Created,
		PollAfter:     found.BootsIn,
		Guest:         &driver.Guest{Joined: found.Joined, Failed: found.Failed, Message: found.Message},
	}
}

// toState converts the state of an instance.
func toState(found hypervisor.Instance) driver.State {
	if found.Running {
		return driver.Running
	}
	return driver.Pending
}

func toAddresses(found hypervisor.Instance) []clusterv1.MachineAddress {
	return []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: found.InternalIP},
		{Type: clusterv1.MachineHostName, Address: found.Hostname},
	}
}

func seconds(count *int32) time.Duration {
	if count == nil {
		return 0
	}
	return time.Duration(*count) * time.Second
}
