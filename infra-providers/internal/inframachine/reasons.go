// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import "drover.io/infra-providers/internal/machinestatus"

// Reasons of the Ready condition that tests of clouds compare with.
const (
	InstanceMissingReason      = machinestatus.InstanceMissingReason
	InstanceRunningReason      = machinestatus.InstanceRunningReason
	InsufficientCapacityReason = machinestatus.InsufficientCapacityReason
	InvalidConfigurationReason = machinestatus.InvalidConfigurationReason
	UnauthorizedReason         = machinestatus.UnauthorizedReason
)
