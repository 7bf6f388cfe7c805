// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"syscall"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/vm"
)

// toError converts an error of the host. Any other error is transient.
func toError(err error) error {
	field, isField := errors.AsType[*vm.FieldError](err)
	switch {
	case err == nil:
		return nil
	case isField:
		return &driver.InvalidConfigurationError{Field: field.Field, Err: field.Err}
	case errors.Is(err, host.ErrNotRunning):
		return &driver.NotRunningError{State: driver.Stopped}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &driver.QuotaExceededError{Err: err}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &driver.UnauthorizedError{Err: err}
	default:
		return err
	}
}
