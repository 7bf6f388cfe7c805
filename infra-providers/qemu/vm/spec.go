// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vm describes a virtual machine and what its QEMU process needs: the command line, the block devices and the seed
// of cloud-init. It refuses images that would make QEMU read other files of the host. It starts nothing; package host does.
package vm

import (
	"net/netip"
	"time"

	"drover.io/infra-providers/qemu/image"
)

// Spec describes a machine. Only its tags change.
type Spec struct {
	// ID is the name of the machine's folder.
	ID         string            `json:"id"`
	ProviderID string            `json:"providerID"`
	Hostname   string            `json:"hostname"`
	Tags       map[string]string `json:"tags"`

	Architecture string `json:"architecture"`
	Acceleration string `json:"acceleration"`
	CPUs         int32  `json:"cpus"`
	MemoryMiB    int64  `json:"memoryMiB"`

	Image       image.Source `json:"image"`
	ImageFormat string       `json:"imageFormat"`
	// DiskBytes is the minimum size of the first disk, Disks are the sizes of the others.
	DiskBytes int64   `json:"diskBytes,omitempty"`
	Disks     []int64 `json:"disks,omitempty"`

	Kernel      image.Source `json:"kernel"`
	Initrd      image.Source `json:"initrd"`
	CommandLine string       `json:"commandLine,omitempty"`
	Firmware    image.Source `json:"firmware"`

	// Bridge is empty for user networking.
	Bridge   string    `json:"bridge,omitempty"`
	Forwards []Forward `json:"forwards,omitempty"`
	MAC      string    `json:"mac"`

	// Ignition is true for user data of Ignition, which reads it from the firmware, and false for cloud-init.
	Ignition bool `json:"ignition,omitempty"`
	// Grace is the time that the guest has to power off.
	Grace time.Duration `json:"grace"`
	// Created is set by the creation.
	Created time.Time `json:"created"`
}

// Forward is a port of the host that is forwarded to one of the machine.
type Forward struct {
	Protocol string     `json:"protocol"`
	Address  netip.Addr `json:"address"`
	HostPort int32      `json:"hostPort"`
	Port     int32      `json:"port"`
}

// FieldError means that the host cannot create what a field specifies, and that a retry does not help.
type FieldError struct {
	// Field is the field of a QEMUMachine.
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }
