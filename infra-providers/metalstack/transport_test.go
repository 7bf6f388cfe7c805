// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import "testing"

// TestAnAllocationIsWaitedFor: the transport waits for headers as long as an allocation may take, which sends them at its end.
func TestAnAllocationIsWaitedFor(t *testing.T) {
	t.Parallel()
	if waited := (login{}).server(nil).Timeout; waited < allocateTimeout {
		t.Errorf("an answer counts as lost after %s, and an allocation may take %s", waited, allocateTimeout)
	}
}
