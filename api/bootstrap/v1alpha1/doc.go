// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of bootstrap.drover.io: BootstrapConfig, which describes how one machine
// becomes a Node, and BootstrapConfigTemplate, from which a MachineSet creates them. A BootstrapConfig follows
// the BootstrapConfig contract of Cluster API v1beta2, so any core with this contract can use it.
//
// It owns types, defaults and validation, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.drover.io
package v1alpha1
