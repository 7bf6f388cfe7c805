// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package google is the driver of Google Compute Engine. A machine is an instance with the machine's name. Names are unique
// in a project and zone, so it is created once; labels identify its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go has the steps
// of a creation and credentials.go the tokens. Package request converts a spec to a request, and package inflight records
// insertions whose end is not known.
package google

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
)

// InstanceConfig is the configuration of one instance.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.GoogleMachineSpec
	Zone string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

// namePattern is what Compute Engine accepts as the name of an instance.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// zonePattern is what Compute Engine accepts as the name of a zone.
var zonePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?-[a-z]$`)

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.GoogleMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.Project == "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.project", Err: errors.New("it must be set")}
	}
	// A template has no name of a machine.
	if machine.Name != "" && !namePattern.MatchString(machine.Name) {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "metadata.name", Err: fmt.Errorf(
			"the instance has the machine's name, which must begin with a letter and have 63 lower-case letters, digits and - at most, not %q", machine.Name)}
	}
	config := InstanceConfig{Spec: spec, Zone: cmp.Or(zone, spec.Zone), Pinned: zone != ""}
	if !zonePattern.MatchString(config.Zone) {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.zone", Err: fmt.Errorf("%q is no zone", config.Zone)}
	}
	config.Spec.ProvisioningModel = cmp.Or(spec.ProvisioningModel, request.Standard)
	if spec.LocalSSD.Count > 0 {
		config.Spec.LocalSSD.Interface = cmp.Or(spec.LocalSSD.Interface, "NVME")
	}
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
		other.Spec.MachineType = cmp.Or(fallback.MachineType, other.Spec.MachineType)
		other.Spec.ProvisioningModel = cmp.Or(fallback.ProvisioningModel, other.Spec.ProvisioningModel)
		all = append(all, other)
	}
	return all
}

// zones returns the zones in which the instance may be requested.
func zones(config InstanceConfig) []string {
	if config.Pinned {
		return []string{config.Zone}
	}
	all := []string{config.Zone, config.Spec.Zone}
	for _, fallback := range config.Spec.Fallbacks {
		all = append(all, cmp.Or(fallback.Zone, config.Spec.Zone))
	}
	return all
}

// toOffering returns what may lack capacity: a machine type in a zone, Spot VMs apart from others.
func toOffering(config InstanceConfig) (machineType, zone string) {
	machineType = config.Spec.MachineType
	if config.Spec.ProvisioningModel == request.Spot {
		machineType += " (spot)"
	}
	return machineType, config.Zone
}

// toAccount returns the account of a machine: the project is a part of the endpoint.
func toAccount(machine *infrav1.GoogleMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Project}
}
