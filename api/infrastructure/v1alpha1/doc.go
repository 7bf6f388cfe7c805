// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of infrastructure.drover.io: one <Cloud>Machine and one
// <Cloud>MachineTemplate per cloud. A <Cloud>Machine follows the InfraMachine contract of Cluster API
// v1beta2, so any core with this contract can use it. A RestartRemediation is independent of the cloud: the
// provider of its Machine acts on it.
//
// It owns types, defaults and validation, and no behaviour beyond the accessors that the generic
// reconciler in drover.io/infra-providers needs to treat all clouds alike.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.drover.io
package v1alpha1
