// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import "drover.io/infra-providers/qemu/vm"

// Phase is the phase of a machine.
type Phase string

// The phases. A machine starts again when its process ended without a shutdown, as after a reboot of the host; after a
// shutdown by its guest it stays Stopped.
const (
	Starting Phase = "Starting"
	Running  Phase = "Running"
	Stopped  Phase = "Stopped"
	Deleting Phase = "Deleting"
)

// Machine is the current state of a machine.
type Machine struct {
	vm.Spec
	Phase Phase
	// Message is why it does not run.
	Message string
	// Address is its address; empty while it is unknown.
	Address string
}
