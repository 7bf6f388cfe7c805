// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/sim"
	"drover.io/infra-providers/sim/hypervisor"
)

// TestAccountIDIsTheStateDirectory: it is the same after a restart, and unique.
func TestAccountIDIsTheStateDirectory(t *testing.T) {
	t.Parallel()
	here, there := t.TempDir(), t.TempDir()
	first := nameOf(t, here)
	if again := nameOf(t, here); again != first || !strings.HasPrefix(first, "sim/") || len(first) < 20 {
		t.Errorf("it was %q, and %q after a restart", first, again)
	}
	if other := nameOf(t, there); other == first {
		t.Errorf("two directories have the ID %q", other)
	}
}

func nameOf(t *testing.T, dir string) string {
	t.Helper()
	hosts, err := hypervisor.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	}()
	connected, err := sim.Cloud(hosts).Connect(t.Context(), driver.Account{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, err := connected.(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil {
		t.Error(err)
	}
	return name
}
