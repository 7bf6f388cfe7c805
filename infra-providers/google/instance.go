// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"regexp"
	"slices"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
	"drover.io/infra-providers/internal/label"
)

// pollInterval is when an instance that starts or stops is read again.
const pollInterval = 5 * time.Second

// mayFail reports whether the insertion of an instance may still fail, and the instance be gone then. One that is started
// again has been started before.
func mayFail(found *compute.Instance) bool {
	return found.Status == "PROVISIONING" && found.LastStartTimestamp == ""
}

var providerIDPattern = regexp.MustCompile(`^gce://([^/]+)/([a-z][-a-z0-9]{0,62})/([a-z][-a-z0-9]{0,62})$`)

// providerID is the one that the cloud controller manager of Google Cloud writes into the Node.
func providerID(project, zone, name string) string {
	return "gce://" + project + "/" + zone + "/" + name
}

// parseProviderID returns the zone and the name of an instance; ok is false for a provider ID that no instance of the
// project can have.
func (d *Driver) parseProviderID(id string) (zone, name string, ok bool) {
	parts := providerIDPattern.FindStringSubmatch(id)
	if parts == nil || parts[1] != d.project {
		return "", "", false
	}
	return parts[2], parts[3], true
}

// toInstance converts an instance.
func (d *Driver) toInstance(found *compute.Instance) driver.Instance {
	zone := request.Last(found.Zone)
	identity := label.Decode(found.Labels)
	identity.ProviderID = providerID(d.project, zone, found.Name)
	created, _ := time.Parse(time.RFC3339, found.CreationTimestamp)
	instance := driver.Instance{
		ID:            found.Name,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         toState(found.Status),
		Addresses:     d.toAddresses(found, zone),
		FailureDomain: zone,
		Created:       created,
	}
	if instance.State == driver.Pending || instance.State == driver.Stopping {
		instance.PollAfter = pollInterval
	}
	if instance.State != driver.Running {
		instance.Message = found.StatusMessage
	}
	return instance
}

// toState converts the status of an instance. REPAIRING ends in RUNNING or in TERMINATED.
func toState(status string) driver.State {
	switch status {
	case "RUNNING":
		return driver.Running
	case "STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING":
		return driver.Stopping
	case "TERMINATED", "STOPPED", "SUSPENDED":
		return driver.Stopped
	default:
		return driver.Pending
	}
}

// toAddresses returns those that Compute Engine gave the instance: by interface the internal address, the external one, and
// the IPv6 ones; then its names. The host has the last one, which is its name in the project.
func (d *Driver) toAddresses(found *compute.Instance, zone string) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address string) {
		if address != "" && !slices.Contains(all, clusterv1.MachineAddress{Type: kind, Address: address}) {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: address})
		}
	}
	for _, nic := range found.NetworkInterfaces {
		add(clusterv1.MachineInternalIP, nic.NetworkIP)
		for _, access := range nic.AccessConfigs {
			add(clusterv1.MachineExternalIP, access.NatIP)
		}
		for _, access := range nic.Ipv6AccessConfigs {
			add(clusterv1.MachineExternalIP, access.ExternalIpv6)
		}
		add(clusterv1.MachineInternalIP, nic.Ipv6Address)
	}
	// The zonal and the global internal name; which one a project uses is a setting of it.
	domain := d.project
	if organization, project, ok := strings.Cut(d.project, ":"); ok {
		domain = project + "." + organization
	}
	add(clusterv1.MachineInternalDNS, found.Name+"."+zone+".c."+domain+".internal")
	add(clusterv1.MachineInternalDNS, found.Name+".c."+domain+".internal")
	add(clusterv1.MachineInternalDNS, found.Name)
	add(clusterv1.MachineHostName, found.Name)
	return all
}

// toImage converts an image.
func toImage(found *compute.Image) driver.Image {
	return driver.Image{ID: request.ImageName(found), Architecture: request.Architecture(found.Architecture)}
}
