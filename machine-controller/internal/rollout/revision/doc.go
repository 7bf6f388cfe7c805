// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision identifies the MachineSets of one MachineDeployment: which of them has the wanted template, what
// counts as another template, the name and the number of a new one, and how an earlier one is restored. It is pure: it
// has no client and no clock. The machinedeployment, machineset and machine controllers and package rollout use it.
package revision
