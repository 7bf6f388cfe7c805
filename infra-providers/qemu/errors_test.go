// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/vm"
)

func TestToError(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(error) bool{
		"invalid": driver.IsInvalidConfiguration, "not running": driver.IsNotRunning, "quota": driver.IsQuotaExceeded, "unauthorized": driver.IsUnauthorized,
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"converts a field error":    {&vm.FieldError{Field: "spec.image", Err: errors.New("x")}, "invalid"},
		"converts ErrNotRunning":    {host.ErrNotRunning, "not running"},
		"converts a full disk":      {&fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}, "quota"},
		"converts a disk quota":     {syscall.EDQUOT, "quota"},
		"converts a missing right":  {&fs.PathError{Op: "open", Path: "p", Err: syscall.EACCES}, "unauthorized"},
		"converts a forbidden call": {syscall.EPERM, "unauthorized"},
		"leaves any other error":    {errors.New("x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toError(fmt.Errorf("creating: %w", test.err))
			for kind, is := range kinds {
				if is(got) != (kind == test.want) {
					t.Errorf("got %v, which is %s: %t", got, kind, is(got))
				}
			}
		})
	}
	if err := toError(nil); err != nil {
		t.Errorf("got %v for nil", err)
	}
	field := &vm.FieldError{Field: "spec.image", Err: errors.New("x")}
	if got, _ := errors.AsType[*driver.InvalidConfigurationError](toError(field)); got == nil || got.Field != "spec.image" {
		t.Errorf("got %#v, want the field of the error", got)
	}
}
