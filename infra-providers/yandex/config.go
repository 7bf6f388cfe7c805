// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package yandex is the driver of Yandex Compute Cloud. A machine is an instance with the machine's name and disks of its own.
// Idempotency keys and unique names let it be created once; labels identify its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and disks.go
// have the steps of a creation, delete.go those of a deletion, credentials.go the tokens and connect.go the connections.
// Package request converts a spec to requests, and package inflight records requests whose end is not known.
package yandex

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// InstanceConfig is the configuration of one instance.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.YandexMachineSpec
	Zone string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

// namePattern is what Compute Cloud accepts as the name of an instance and a disk, without the underscore that no machine has.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// zonePattern is what the name of a zone may be.
var zonePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$`)

// defaultPlatform is the platform of a spec without one.
const defaultPlatform = "standard-v3"

// publicImages is the folder of the public images of Yandex Cloud.
const publicImages = "standard-images"

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.YandexMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.FolderID == "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.folderID", Err: errors.New("it must be set")}
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
	config.Spec.PlatformID = cmp.Or(spec.PlatformID, defaultPlatform)
	if config.Spec.Image.Family != "" {
		config.Spec.Image.FolderID = cmp.Or(spec.Image.FolderID, publicImages)
	}
	return config, checkSubnets(config)
}

// checkSubnets reports a network interface without a subnet in a zone in which the instance may be requested.
func checkSubnets(config InstanceConfig) error {
	for n, nic := range config.Spec.NetworkInterfaces {
		if !hasSubnet(nic, config.Zone) {
			return &driver.InvalidConfigurationError{Field: fmt.Sprintf("spec.networkInterfaces[%d].subnets", n), Err: fmt.Errorf("there is no subnet for the zone %q", config.Zone)}
		}
		for at, fallback := range config.Spec.Fallbacks {
			if fallback.Zone != "" && !config.Pinned && !hasSubnet(nic, fallback.Zone) {
				return &driver.InvalidConfigurationError{Field: fmt.Sprintf("spec.fallbacks[%d].zone", at), Err: fmt.Errorf("spec.networkInterfaces[%d].subnets has no subnet for the zone %q", n, fallback.Zone)}
			}
		}
	}
	return nil
}

func hasSubnet(nic infrav1.YandexNetworkInterface, zone string) bool {
	return slices.ContainsFunc(nic.Subnets, func(s infrav1.YandexSubnet) bool { return s.Zone == zone })
}

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another zone are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.Zone != "" && fallback.Zone != config.Zone {
			continue
		}
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), Zone: cmp.Or(fallback.Zone, config.Zone), Pinned: config.Pinned}
		other.Spec.PlatformID = cmp.Or(fallback.PlatformID, other.Spec.PlatformID)
		other.Spec.Cores = cmp.Or(fallback.Cores, other.Spec.Cores)
		other.Spec.MemoryMiB = cmp.Or(fallback.MemoryMiB, other.Spec.MemoryMiB)
		if fallback.Preemptible != nil {
			other.Spec.Preemptible = fallback.Preemptible
		}
		all = append(all, other)
	}
	return all
}

// toOffering returns what may lack capacity: a platform with a size in a zone, preemptible instances apart from others.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	spec := config.Spec
	instanceType = fmt.Sprintf("%s, %d cores, %d MiB", spec.PlatformID, spec.Cores, spec.MemoryMiB)
	if spec.GPUs != nil {
		instanceType += fmt.Sprintf(", %d GPUs", *spec.GPUs)
	}
	if ptr.Deref(spec.Preemptible, false) {
		instanceType += " (preemptible)"
	}
	return instanceType, config.Zone
}

// toAccount returns the account of a machine: the folder is a part of the endpoint.
func toAccount(machine *infrav1.YandexMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.FolderID}
}
