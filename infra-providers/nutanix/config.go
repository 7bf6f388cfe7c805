// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nutanix is the driver of Nutanix AHV, through version 4 of the API of Prism Central. A machine is a virtual machine
// that is created stopped and then started. Idempotency tokens let it be created once; its description identifies its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and delete.go
// have the steps of a creation and a deletion, changes.go the tasks of removals, credentials.go the logins. Package request
// converts a spec to a request, and package prism makes the calls.
package nutanix

import (
	"cmp"
	"errors"
	"fmt"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/request"
)

// maxName is the maximum number of characters of the name of a virtual machine.
const maxName = 80

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	// Spec is the machine's. Its cluster is that of the virtual machine.
	Spec infrav1.NutanixMachineSpec
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

// NewInstanceConfig sets the cluster of a machine's spec. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.NutanixMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	spec.ProviderID = ""
	spec.Cluster = cmp.Or(zone, spec.Cluster)
	if spec.Cluster == "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.cluster", Err: errors.New("it must be set")}
	}
	if len(machine.Name) > maxName {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "metadata.name", Err: fmt.Errorf(
			"the virtual machine has the machine's name, which may have %d characters at most", maxName)}
	}
	return InstanceConfig{Spec: spec, Pinned: zone != ""}, nil
}

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another cluster are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.Cluster != "" && fallback.Cluster != config.Spec.Cluster {
			continue
		}
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), Pinned: config.Pinned}
		other.Spec.Cluster = cmp.Or(fallback.Cluster, other.Spec.Cluster)
		if fallback.VCPUSockets != nil {
			other.Spec.VCPUSockets = *fallback.VCPUSockets
		}
		if fallback.MemoryMiB != nil {
			other.Spec.MemoryMiB = *fallback.MemoryMiB
		}
		all = append(all, other)
	}
	return all
}

// toOffering returns what may lack capacity: a size in a cluster.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	return request.Offering(config.Spec), config.Spec.Cluster
}

// toAccount returns the account of a machine. The Secret names the Prism Central.
func toAccount(machine *infrav1.NutanixMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName}
}
