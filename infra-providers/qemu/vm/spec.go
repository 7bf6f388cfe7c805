// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"time"

	"drover.io/infra-providers/qemu/image"
)

// Spec is what a machine is. Only its tags ever change.
type Spec struct {
	// ID names the machine's folder.
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
	// DiskBytes is the least size of the first disk, Disks are the sizes of further ones.
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

	// Ignition says that the user data is for Ignition, which reads it from the firmware, not for cloud-init.
	Ignition bool `json:"ignition,omitempty"`
	// Grace is how long the guest may take to power off.
	Grace time.Duration `json:"grace"`
	// Created is filled in by Create.
	Created time.Time `json:"created"`
}

// Forward is a port of the host that leads to one of the machine.
type Forward struct {
	Protocol string     `json:"protocol"`
	Address  netip.Addr `json:"address"`
	HostPort int32      `json:"hostPort"`
	Port     int32      `json:"port"`
}

// Phase is what a machine is at.
type Phase string

// The phases. A machine starts again whose process is gone although nobody shut it down, as after a reboot of the
// host; one that its guest shut down stays Stopped.
const (
	Starting Phase = "Starting"
	Running  Phase = "Running"
	Stopped  Phase = "Stopped"
	Ending   Phase = "Ending"
)

// Machine is a machine as it is now.
type Machine struct {
	Spec
	Phase Phase
	// Message is why it does not run, if it should.
	Message string
	// Address is where it is reached on its network; empty while nobody knows.
	Address string
}

// FieldError says that the host cannot make what a field asks for, and that asking again does not help.
type FieldError struct {
	// Field is the field of a QEMUMachine.
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }
