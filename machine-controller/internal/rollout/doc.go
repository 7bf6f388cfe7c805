// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides how the MachineSets of one MachineDeployment are created, scaled and deleted. It owns the
// arithmetic of RollingUpdate and OnDelete. Which MachineSet is the current one is decided by package revision. It is pure,
// without a client or a clock: the machinedeployment controller makes a State (Observe), calls Plan and applies the Actions.
//
// # Requirements on the caller
//
// The Actions of one Decision may be applied in any order, or only in part, and the invariants are kept, provided that:
//   - every write has the resourceVersion that the State was made from as a precondition, so that a conflict drops the action
//     and the next State is decided anew;
//   - no MachineSet is lowered for an older spec of the MachineDeployment than the API server has;
//   - a MachineSet that was created, changed or deleted and that the cache does not show yet is named in State.Unseen;
//   - Machines are read after MachineSets, from the cache that the machineset controller uses; after a decrease of
//     spec.replicas the delete-machine annotations are compared with the API server, because the cache may not show them yet;
//   - Scale and CreateCurrent write Decision.SizeAnnotations into the MachineSet together with its replicas;
//   - CreateCurrent uses the name of revision.NewMachineSetName and handles AlreadyExists: the existing MachineSet is read from the API
//     server; if it is owned, not being deleted and of the same template, it is the current one; otherwise the next attempt
//     number is used.
//
// The machineset controller must count Machines that are being deleted, both when it creates and when it deletes, and must
// delete in the order of package priority: the annotated, then the unavailable first.
package rollout
