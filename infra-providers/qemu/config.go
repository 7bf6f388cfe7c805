// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package qemu is the driver of virtual machines on the provider's own host, with QEMU. There is no cloud and there are no
// credentials: it is for laptops, labs and bare hosts, and for tests of images.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go. Package vm describes
// the machines, package host runs them.
package qemu

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/vm"
)

// InstanceConfig is the configuration of one machine. The driver adds the identity, the addresses and the time.
type InstanceConfig = vm.Spec

const mebibyte = 1 << 20

// NewInstanceConfig decodes, defaults and validates the spec of a machine. The zone can only be the host's own name.
func NewInstanceConfig(machine *infrav1.QEMUMachine, zone, hostName string) (InstanceConfig, error) {
	if zone != "" && zone != hostName {
		return InstanceConfig{}, driver.InvalidField("failureDomain", "%q is not this provider's host, which is %q", zone, hostName)
	}
	spec := machine.Spec
	config := InstanceConfig{
		Architecture: cmp.Or(spec.Architecture, "amd64"),
		Acceleration: string(cmp.Or(spec.Acceleration, infrav1.QEMUAccelerationAuto)),
		CPUs:         ptr.Deref(spec.CPUs, 2),
		Image:        toSource(spec.Image.QEMUFile),
		ImageFormat:  cmp.Or(spec.Image.Format, "qcow2"),
		Kernel:       toSource(spec.Kernel.Image),
		Initrd:       toSource(spec.Kernel.Initrd),
		CommandLine:  spec.Kernel.CommandLine,
		Firmware:     toSource(spec.Firmware),
		Bridge:       spec.Network.Bridge,
		Grace:        time.Duration(ptr.Deref(spec.ShutdownGracePeriodSeconds, 60)) * time.Second,
	}
	memory := ptr.Deref(spec.Memory, resource.MustParse("2Gi"))
	if memory.Value() <= 0 || memory.Value()%mebibyte != 0 {
		return InstanceConfig{}, driver.InvalidField("spec.memory", "%q is not a multiple of 1Mi", memory.String())
	}
	config.MemoryMiB = memory.Value() / mebibyte
	if spec.DiskSize != nil {
		config.DiskBytes = spec.DiskSize.Value()
	}
	for _, disk := range spec.Disks {
		config.Disks = append(config.Disks, disk.Size.Value())
	}
	if !config.Image.Given() {
		return InstanceConfig{}, driver.InvalidField("spec.image", "one of path and url must be set")
	}
	if config.Architecture == "arm64" && !config.Firmware.Given() && !config.Kernel.Given() {
		return InstanceConfig{}, driver.InvalidField("spec.firmware", "an arm64 machine needs a firmware, or spec.kernel")
	}
	for i, f := range spec.Network.Forwards {
		address, err := netip.ParseAddr(cmp.Or(f.HostAddress, "127.0.0.1"))
		if err != nil {
			return InstanceConfig{}, driver.InvalidField(fmt.Sprintf("spec.network.forwards[%d].hostAddress", i), "%q is not an address", f.HostAddress)
		}
		config.Forwards = append(config.Forwards, vm.Forward{Protocol: cmp.Or(f.Protocol, "TCP"), Address: address, HostPort: f.HostPort, Port: f.Port})
	}
	return config, nil
}

func toSource(f infrav1.QEMUFile) image.Source {
	return image.Source{Path: f.Path, URL: f.URL, SHA256: f.SHA256}
}

// toAccount returns the account of a machine, which is always the host.
func toAccount(*infrav1.QEMUMachine) driver.Account { return driver.Account{} }
