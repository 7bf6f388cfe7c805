// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
)

// toError returns the error of the machine's simulated faults, or nil. Other errors come from the state directory and are
// transient.
func toError(config InstanceConfig) error {
	faults := config.Faults
	switch {
	case ptr.Deref(faults.QuotaExceeded, false):
		return &driver.QuotaExceededError{Err: errors.New("the account's quota of simulated instances is used up")}
	case ptr.Deref(faults.InsufficientCapacity, false):
		return &driver.InsufficientCapacityError{InstanceType: config.InstanceType, Zone: config.Zone, Err: errors.New("the simulated zone is full")}
	case faults.CreateError != "":
		return errors.New(faults.CreateError)
	default:
		return nil
	}
}
