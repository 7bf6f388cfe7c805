// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kind of policy.drover.io: MachinePolicy, which configures how the Machines
// of some MachineDeployments and MachineSets are made, replaced and drained. It holds what Cluster API's own
// kinds have no field for.
//
// It owns types, defaults and validation, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=policy.drover.io
package v1alpha1
