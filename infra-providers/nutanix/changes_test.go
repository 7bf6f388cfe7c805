// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import "testing"

// TestTaskThatAnotherCallerHasBegun is not forgotten by one that has read the one before.
func TestTaskThatAnotherCallerHasBegun(t *testing.T) {
	t.Parallel()
	d := &Driver{}
	d.changes.TTL = changeLifetime
	d.changes.Set("vm", "second")
	if d.forget("vm", "first") || !d.changes.Has("vm") {
		t.Error("the second task was forgotten")
	}
	if !d.forget("vm", "second") || d.changes.Has("vm") || !d.forget("vm", "second") {
		t.Error("the last task was not forgotten")
	}
}
