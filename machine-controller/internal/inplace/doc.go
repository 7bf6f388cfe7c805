// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inplace propagates the fields that change without new Machines: from a MachineDeployment to its MachineSets, from
// a MachineSet to its Machines, and the labels and annotations from a Machine to its BootstrapConfig and InfraMachine. What
// needs new Machines is in package revision. The machinedeployment and machineset controllers use it.
package inplace
