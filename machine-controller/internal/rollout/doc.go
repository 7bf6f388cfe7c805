// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides how the MachineSets of one MachineDeployment grow,
// shrink, appear and disappear. It owns the arithmetic of RollingUpdate and
// OnDelete, the choice of the current MachineSet, its name and its revision.
// It has no client and no clock: the MachineDeployment controller gathers a
// State (Observe), asks (Plan) and applies the Intents.
//
// # What the caller must do
//
// Intents of one Decision may be applied in any order, or only in part, and
// the invariants still hold, provided that:
//   - every write carries the resourceVersion that the State was made from, so
//     that a conflict drops the intent and the next State decides anew;
//   - a MachineSet that was created, changed or deleted and whose cache does not
//     show it yet is named in State.Unseen;
//   - Machines are read after MachineSets, from the cache that the MachineSet
//     controller uses; after a decrease of spec.replicas they are read live,
//     because the annotation that comes with it may not be in the cache;
//   - Scale and CreateCurrent stamp Decision.Stamp onto the MachineSet in the
//     same write as its replicas;
//   - CreateCurrent uses the name of Identify and takes AlreadyExists for an
//     answer: look live, and if that MachineSet is ours, alive and of the same
//     template, it is the current one; otherwise try the next attempt number.
//
// The MachineSet controller must count Machines that are being deleted as
// Machines, both when it creates and when it deletes, and must pick its victims
// in the order of package priority: the annotated, then the unavailable first.
package rollout
