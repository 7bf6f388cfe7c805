// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"testing"

	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/driver/fake"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	habits := map[string]fake.Options{
		"at once":  {},
		"slowly":   {BootReads: 2, DeleteReads: 3},
		"in steps": {Steps: 3, BootReads: 1, DeleteReads: 1},
	}
	for name, options := range habits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(*testing.T) drivertest.Environment[fake.Config] { return fake.Environment(options) })
		})
	}
}
