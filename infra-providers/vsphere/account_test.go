// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"testing"

	"drover.io/infra-providers/driver"
)

// TestAccountID: what is stored on a machine must not change with an address or a user.
func TestAccountID(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	got, err := any(w.connect()).(driver.AccountIdentifier).AccountID(t.Context())
	if want := "vcenter/" + w.admin.ServiceContent.About.InstanceUuid; err != nil || got != want || want == "vcenter/" {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
}
