// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package sim is the driver of the simulated cloud: machines without virtual machines, whose simulated hosts join by their
// bootstrap data. It is for first steps with Drover, for tests and for measurements at scale.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go. The cloud is package
// hypervisor.
package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// defaultZone is the zone of machines without one.
const defaultZone = "zone-a"

// defaultInstanceType is the instance type of machines without one.
const defaultInstanceType = "small"

// InstanceConfig is the configuration of one instance.
type InstanceConfig struct {
	InstanceType string
	Size         driver.Capacity
	Zone         string
	BootDelay    time.Duration
	Faults       infrav1.SimFaults
}

// sizes are the instance types.
var sizes = map[string]driver.Capacity{
	"small":      size("2", "4Gi", "amd64"),
	"medium":     size("4", "8Gi", "amd64"),
	"large":      size("8", "32Gi", "amd64"),
	"xlarge":     size("32", "128Gi", "amd64"),
	"arm-medium": size("4", "8Gi", "arm64"),
}

func size(cpu, memory, architecture string) driver.Capacity {
	return driver.Capacity{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse(cpu),
			corev1.ResourceMemory:           resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		},
		Architecture:    architecture,
		OperatingSystem: "linux",
	}
}

// NewInstanceConfig decodes, defaults and validates the spec of a machine.
func NewInstanceConfig(machine *infrav1.SimMachine, zone string) (InstanceConfig, error) {
	spec := machine.Spec
	instanceType := cmp.Or(spec.InstanceType, defaultInstanceType)
	known, ok := sizes[instanceType]
	if !ok {
		types := strings.Join(slices.Sorted(maps.Keys(sizes)), ", ")
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: fmt.Errorf("%q is not one of %s", instanceType, types)}
	}
	return InstanceConfig{
		InstanceType: instanceType,
		Size:         known,
		Zone:         cmp.Or(zone, spec.Zone, defaultZone),
		BootDelay:    time.Duration(ptr.Deref(spec.BootDelaySeconds, 0)) * time.Second,
		Faults:       spec.Faults,
	}, nil
}

// toAccount returns the account of a machine, which is always the hypervisor.
func toAccount(*infrav1.SimMachine) driver.Account { return driver.Account{} }

// toOffering returns the instance type and the zone, which may lack capacity.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	return config.InstanceType, config.Zone
}
