// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
)

// TestAccountIDIsTheStateDirectory: it is the same after a restart, and unique.
func TestAccountIDIsTheStateDirectory(t *testing.T) {
	t.Parallel()
	here, there := newOptions(t, false), newOptions(t, false)
	first := nameOf(t, here)
	if again := nameOf(t, here); again != first || !strings.HasPrefix(first, "qemu/") || len(first) < 20 {
		t.Errorf("it was %q, and %q after a restart", first, again)
	}
	if other := nameOf(t, there); other == first {
		t.Errorf("two directories have the ID %q", other)
	}
}

func nameOf(t *testing.T, options host.Options) string {
	t.Helper()
	machines, err := host.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	defer deleteAll(t, machines)
	name, err := connect(t, machines).(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil {
		t.Error(err)
	}
	return name
}
