// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
	"drover.io/infra-providers/yandex/request"
)

// pollInterval is when an instance that starts or stops is read again.
const pollInterval = 5 * time.Second

// mayFail reports whether the creation of an instance may still fail, and the instance be gone then. One that is started again
// is STARTING.
func mayFail(found *compute.Instance) bool {
	return found.Status == compute.Instance_PROVISIONING || found.Status == compute.Instance_STATUS_UNSPECIFIED
}

var providerIDPattern = regexp.MustCompile(`^yandex://([a-z0-9][-a-z0-9]{0,49})$`)

// providerID is the one that the cloud controller manager of Yandex Cloud writes into the Node.
func providerID(instanceID string) string { return "yandex://" + instanceID }

// parseProviderID returns the ID of an instance; ok is false for a provider ID that no instance can have.
func parseProviderID(id string) (instanceID string, ok bool) {
	parts := providerIDPattern.FindStringSubmatch(id)
	if parts == nil {
		return "", false
	}
	return parts[1], true
}

// toInstance converts an instance.
func toInstance(found *compute.Instance) driver.Instance {
	identity := label.Decode(found.Labels)
	identity.ProviderID = providerID(found.Id)
	instance := driver.Instance{
		ID:            found.Id,
		ProviderID:    identity.ProviderID,
		Identity:      identity,
		State:         toState(found.Status),
		Addresses:     toAddresses(found),
		FailureDomain: found.ZoneId,
	}
	if found.CreatedAt != nil {
		instance.Created = found.CreatedAt.AsTime()
	}
	if instance.State == driver.Pending || instance.State == driver.Stopping {
		instance.PollAfter = pollInterval
	}
	switch found.Status {
	case compute.Instance_CRASHED:
		instance.Message = "the instance crashed; Compute Cloud restarts it"
	case compute.Instance_ERROR:
		instance.Message = "the instance is in the status ERROR and cannot operate"
	}
	return instance
}

// toState converts the status of an instance. CRASHED ends in RUNNING, because Compute Cloud restarts the instance.
func toState(status compute.Instance_Status) driver.State {
	switch status {
	case compute.Instance_RUNNING:
		return driver.Running
	case compute.Instance_STOPPING, compute.Instance_DELETING:
		return driver.Stopping
	case compute.Instance_STOPPED, compute.Instance_ERROR:
		return driver.Stopped
	default:
		return driver.Pending
	}
}

// toAddresses returns those that Compute Cloud gave the instance: by interface the internal IPv4 address, the external one and
// the IPv6 one; then its name in the network, and the host's name, which is the first part of it.
func toAddresses(found *compute.Instance) (all []clusterv1.MachineAddress) {
	add := func(kind clusterv1.MachineAddressType, address string) {
		if address != "" && !slices.Contains(all, clusterv1.MachineAddress{Type: kind, Address: address}) {
			all = append(all, clusterv1.MachineAddress{Type: kind, Address: address})
		}
	}
	for _, nic := range found.NetworkInterfaces {
		add(clusterv1.MachineInternalIP, nic.GetPrimaryV4Address().GetAddress())
		add(clusterv1.MachineExternalIP, nic.GetPrimaryV4Address().GetOneToOneNat().GetAddress())
		add(clusterv1.MachineInternalIP, nic.GetPrimaryV6Address().GetAddress())
	}
	name := strings.TrimSuffix(found.Fqdn, ".")
	add(clusterv1.MachineInternalDNS, name)
	host, _, _ := strings.Cut(name, ".")
	add(clusterv1.MachineInternalDNS, host)
	add(clusterv1.MachineHostName, host)
	return all
}

// toImage converts an image. Compute Cloud reports no architecture, and has only one.
func toImage(found *compute.Image) driver.Image {
	return driver.Image{ID: found.Id, Architecture: request.Architecture}
}
