// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubevirt is the driver of KubeVirt. A machine is a VirtualMachine in a namespace of an infrastructure cluster, with a
// Secret that has its bootstrap data. Names are unique in a namespace, and that of a VirtualMachine is derived from the UID of
// its machine, so it is created once; annotations identify its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; connect.go opens the way
// to the API server, answers.go bounds what it answers, create.go has the steps of a creation, and virtualmachine.go converts a
// spec to a VirtualMachine.
package kubevirt

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.KubeVirtMachineSpec
	Zone string
	// Group are the labels of the virtual machines among which this one is spread.
	Group map[string]string
}

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.KubeVirtMachine, zone string) (InstanceConfig, error) {
	// A template has no name of a machine. KubeVirt accepts a label of DNS as the name of a host.
	if errs := validation.IsDNS1123Label(machine.Name); machine.Name != "" && len(errs) > 0 {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "metadata.name", Err: fmt.Errorf(
			"the host has the machine's name, which must be a label of DNS of 63 lower-case letters, digits and - at most, not %q", machine.Name)}
	}
	if errs := validation.IsValidLabelValue(zone); len(errs) > 0 {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.zone", Err: fmt.Errorf("%q is no value of a label", zone)}
	}
	spec := *machine.Spec.DeepCopy()
	spec.Architecture = cmp.Or(spec.Architecture, "amd64")
	spec.BootstrapDisk = cmp.Or(spec.BootstrapDisk, noCloud)
	spec.EvictionStrategy = cmp.Or(spec.EvictionStrategy, "External")
	config := InstanceConfig{Spec: spec, Zone: cmp.Or(zone, spec.Zone), Group: map[string]string{}}
	for _, key := range []string{clusterv1.ClusterNameLabel, clusterv1.MachineDeploymentNameLabel} {
		if value := machine.Labels[key]; value != "" {
			config.Group[key] = value
		}
	}
	return config, nil
}

// toAccount returns the account of a machine: the namespace is below the API server. With the provider's own credentials it is
// that of the machine, so that machines of one namespace never reach another one.
func toAccount(machine *infrav1.KubeVirtMachine) driver.Account {
	account := driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Namespace}
	if account.SecretName != "" {
		account.Region = cmp.Or(machine.Spec.Namespace, machine.Namespace)
	}
	return account
}
