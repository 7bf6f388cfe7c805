// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package azure is the driver of virtual machines of Azure. A virtual machine has the machine's name; its network interface
// has a name that derives from the machine's UID. Names are unique in a resource group, and a network interface is attached to one
// virtual machine at most, so a machine has one; tags identify its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and delete.go have
// the steps of a creation and a deletion, attached.go what is beside a virtual machine, and credentials.go the tokens. Package
// request converts a spec to requests, and package tag the tags.
package azure

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/driver"
)

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.AzureMachineSpec
	// Zone is empty for a virtual machine in no zone.
	Zone string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

var (
	// namePattern is what Azure accepts as the name of a virtual machine and of its host. One of digits alone is refused.
	namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`)
	// zonePattern is what Azure has as names of zones.
	zonePattern = regexp.MustCompile(`^[1-9][0-9]?$`)
	// groupPattern is what Azure accepts as the name of a resource group.
	groupPattern = regexp.MustCompile(`^[-\w._()]{0,89}[-\w_()]$`)
	// subscriptionPattern is that of an ID of a subscription.
	subscriptionPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.AzureMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if !groupPattern.MatchString(spec.ResourceGroup) {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.resourceGroup", Err: errors.New("it must be the name of a resource group")}
	}
	// A template has no name of a machine.
	if machine.Name != "" && (!namePattern.MatchString(machine.Name) || strings.Trim(machine.Name, "0123456789") == "") {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "metadata.name", Err: fmt.Errorf(
			"the virtual machine has the machine's name, which must have 64 lower-case letters, digits and - at most, and not digits alone, not %q", machine.Name)}
	}
	config := InstanceConfig{Spec: spec, Zone: cmp.Or(zone, spec.Zone), Pinned: zone != ""}
	if config.Zone != "" && !zonePattern.MatchString(config.Zone) {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.zone", Err: fmt.Errorf("%q is no zone: they are 1, 2 and 3", config.Zone)}
	}
	if config.Zone != "" && spec.AvailabilitySetID != "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.availabilitySetID", Err: fmt.Errorf(
			"a virtual machine in an availability set is in no zone, and the Machine has the failure domain %q", config.Zone)}
	}
	config.Spec.Priority = cmp.Or(spec.Priority, request.Regular)
	return config, nil
}

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another zone are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.Zone != "" && fallback.Zone != config.Zone {
			continue
		}
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), Zone: cmp.Or(fallback.Zone, config.Zone), Pinned: config.Pinned}
		other.Spec.VMSize = cmp.Or(fallback.VMSize, other.Spec.VMSize)
		other.Spec.Priority = cmp.Or(fallback.Priority, other.Spec.Priority)
		all = append(all, other)
	}
	return all
}

// toOffering returns what may lack capacity: a size in a zone or a location, Spot VMs apart from others.
func toOffering(config InstanceConfig) (size, zone string) {
	size, zone = config.Spec.VMSize, config.Spec.Location
	if config.Spec.Priority == request.Spot {
		size += " (spot)"
	}
	if config.Zone != "" {
		zone += "-" + config.Zone
	}
	return size, zone
}

// toAccount returns the account of a machine: subscription and resource group are a part of the endpoint.
func toAccount(machine *infrav1.AzureMachine) driver.Account {
	return driver.Account{
		SecretName: machine.Spec.CredentialsSecretName,
		Region:     strings.ToLower(machine.Spec.SubscriptionID + "/" + machine.Spec.ResourceGroup),
	}
}
