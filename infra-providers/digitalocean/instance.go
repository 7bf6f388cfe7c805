// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/driver"
)

// providerIDPrefix is that of the cloud controller manager of DigitalOcean.
const providerIDPrefix = "digitalocean://"

// pollInterval is when a Droplet that starts or stops is read again.
const pollInterval = 10 * time.Second

func providerID(id int) string { return providerIDPrefix + strconv.Itoa(id) }

// parseProviderID is the reverse of providerID; ok is false for one that no Droplet can have.
func parseProviderID(providerID string) (id int, ok bool) {
	digits, ok := strings.CutPrefix(providerID, providerIDPrefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.Atoi(digits)
	return id, err == nil && id > 0 && strconv.Itoa(id) == digits
}

// toInstance converts a Droplet.
func toInstance(droplet *godo.Droplet) driver.Instance {
	identity := tag.Identity(droplet.Tags)
	identity.ProviderID = providerID(droplet.ID)
	instance := driver.Instance{
		ID:         strconv.Itoa(droplet.ID),
		ProviderID: identity.ProviderID,
		Identity:   identity,
		State:      toState(droplet.Status),
		Addresses:  toAddresses(droplet),
	}
	// A time that cannot be read counts as unknown.
	instance.Created, _ = time.Parse(time.RFC3339, droplet.Created)
	if droplet.Region != nil {
		instance.FailureDomain = droplet.Region.Slug
	}
	if instance.State == driver.Pending {
		instance.PollAfter = pollInterval
		instance.Message = "Droplet is " + droplet.Status
	}
	return instance
}

// toState converts the status of a Droplet. An unknown status counts neither as deleted nor as stopped.
func toState(status string) driver.State {
	switch status {
	case "active":
		return driver.Running
	case "off", "archive":
		return driver.Stopped
	default: // new
		return driver.Pending
	}
}

// toAddresses returns those that the cloud controller manager gives the Node: the name, private addresses as internal,
// public ones as external, IPv4 first.
func toAddresses(droplet *godo.Droplet) []clusterv1.MachineAddress {
	all := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: droplet.Name}}
	if droplet.Networks == nil {
		return all
	}
	add := func(network, address string) {
		kind := clusterv1.MachineInternalIP
		if network == "public" {
			kind = clusterv1.MachineExternalIP
		}
		if address != "" {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: address})
		}
	}
	for _, kind := range []string{"private", "public"} {
		for _, network := range droplet.Networks.V4 {
			if network.Type == kind {
				add(kind, network.IPAddress)
			}
		}
	}
	for _, network := range droplet.Networks.V6 {
		add(network.Type, network.IPAddress)
	}
	return all
}
