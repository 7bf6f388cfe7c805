// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metalstack is the driver of metal-stack. Its machines exist before and after: one is allocated for a project, and
// freed. So the ID of a machine is that of its hardware, and the tags of the allocation are its identity.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go allocates,
// claim.go has the addresses that make it do so once, refusal.go finds why the API refuses, delete.go frees, lookup.go reads
// what a spec names, credentials.go and client.go have the calls.
package metalstack

import (
	"cmp"
	"fmt"
	"regexp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// InstanceConfig is the configuration of one machine.
type InstanceConfig struct {
	// Spec is the machine's. Its size is that of a fallback.
	Spec infrav1.MetalStackMachineSpec
	// Partition is where the machine is to be, and Network its private network there.
	Partition, Network string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

// projectPattern and idPattern are what a project, and any other entity of the API, may have as its ID. Neither has a slash,
// a dot alone, or an end.
var (
	projectPattern = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]{0,62}[a-zA-Z0-9])?$`)
	idPattern      = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,62}[a-zA-Z0-9])?$`)
)

// NewInstanceConfig returns the configuration of a machine. The schema's rules have validated its spec.
func NewInstanceConfig(machine *infrav1.MetalStackMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if !projectPattern.MatchString(spec.Project) {
		return InstanceConfig{}, driver.InvalidField("spec.project", "%q is no project", spec.Project)
	}
	config := InstanceConfig{Spec: spec, Partition: cmp.Or(zone, spec.Partition), Pinned: zone != ""}
	if !idPattern.MatchString(config.Partition) {
		return InstanceConfig{}, driver.InvalidField("spec.partition", "%q is no partition", config.Partition)
	}
	if config.Network = networkOf(spec, config.Partition); config.Network == "" {
		return InstanceConfig{}, driver.InvalidField("spec.privateNetworks", "there is no network for the partition %q", config.Partition)
	}
	for n, network := range spec.Networks {
		if network.NetworkID == config.Network {
			return InstanceConfig{}, driver.InvalidField(fmt.Sprintf("spec.networks[%d].networkID", n), "it is the private network")
		}
	}
	return config, nil
}

func networkOf(spec infrav1.MetalStackMachineSpec, partition string) string {
	for _, network := range spec.PrivateNetworks {
		if network.Partition == partition {
			return network.NetworkID
		}
	}
	return ""
}

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another partition are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), Partition: cmp.Or(fallback.Partition, config.Partition), Pinned: config.Pinned}
		if other.Network = networkOf(config.Spec, other.Partition); other.Network == "" || config.Pinned && other.Partition != config.Partition {
			continue
		}
		other.Spec.Size = cmp.Or(fallback.Size, other.Spec.Size)
		all = append(all, other)
	}
	return all
}

// toOffering returns what may have no free machine: a size in a partition.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	return config.Spec.Size, config.Partition
}

// toAccount returns the account of a machine: a project of the API that the credentials name.
func toAccount(machine *infrav1.MetalStackMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Project}
}
