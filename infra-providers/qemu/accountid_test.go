// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
)

// TestTheAccountIsTheStateDirectory: the name stays over restarts, and no other directory has it.
func TestTheAccountIsTheStateDirectory(t *testing.T) {
	t.Parallel()
	here, there := places(t, false), places(t, false)
	first := nameOf(t, here)
	if again := nameOf(t, here); again != first || !strings.HasPrefix(first, "qemu/") || len(first) < 20 {
		t.Errorf("it was %q and became %q", first, again)
	}
	if other := nameOf(t, there); other == first {
		t.Errorf("two directories are both %q", other)
	}
}

func nameOf(t *testing.T, options host.Options) string {
	t.Helper()
	machines, err := host.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, machines)
	name, err := connect(t, machines).(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil {
		t.Error(err)
	}
	return name
}
