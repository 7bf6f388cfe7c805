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

// providerID is what the host's Node carries too. The instance's ID is unique over all zones.
func providerID(zone, id string) string { return "sim:///" + zone + "/" + id }

// instanceID derives the instance's ID from the identity, which is what makes creation idempotent.
func instanceID(id driver.Identity) string {
	if id.ProviderID != "" {
		return path.Base(id.ProviderID)
	}
	return "sim-" + string(id.UID)
}

// owned converts an instance that must belong to an identity.
func owned(found hypervisor.Instance, id driver.Identity) (driver.Instance, error) {
	instance := toInstance(found)
	if err := id.Check(instance.Identity); err != nil {
		return driver.Instance{}, err
	}
	return instance, nil
}

func toInstance(found hypervisor.Instance) driver.Instance {
	identity, _ := driver.FromTags(found.Tags)
	identity.ProviderID = found.ProviderID
	state := driver.Pending
	if found.Running {
		state = driver.Running
	}
	return driver.Instance{
		ID:         found.ID,
		ProviderID: found.ProviderID,
		Identity:   identity,
		State:      state,
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: found.InternalIP},
			{Type: clusterv1.MachineHostName, Address: found.Hostname},
		},
		FailureDomain: found.Zone,
		Created:       found.Created,
		PollAfter:     found.BootsIn,
		Guest:         &driver.Guest{Joined: found.Joined, Failed: found.Failed, Message: found.Message},
	}
}

func seconds(count *int32) time.Duration {
	if count == nil {
		return 0
	}
	return time.Duration(*count) * time.Second
}
