// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vcd/vcdfake"
)

// TestGuestThatEnded does not run any more, also where Director keeps what it ran in.
func TestGuestThatEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end     func(*vcdfake.Cloud)
		message string
	}{
		"shut down":        {(*vcdfake.Cloud).ShutDown, ""},
		"switched off":     {(*vcdfake.Cloud).Stop, ""},
		"suspended":        {func(c *vcdfake.Cloud) { c.Suspend(false) }, "it is suspended"},
		"partly suspended": {func(c *vcdfake.Cloud) { c.Suspend(true) }, "it is suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, vcdfake.Options{})
			d := w.connect(t)
			create(t, d, newRequest(identity, newConfig(t, unchanged)))
			test.end(w.cloud)
			found, err := d.Get(t.Context(), identity)
			if err != nil || found.State != driver.Stopped || found.Message != test.message {
				t.Errorf("got %q, %q and %v, want %q, %q", found.State, found.Message, err, driver.Stopped, test.message)
			}
			for listed, err := range d.List(t.Context(), driver.Owner{}) {
				if err != nil || listed.State != found.State || listed.Message != found.Message {
					t.Errorf("in the list: got %q, %q and %v", listed.State, listed.Message, err)
				}
			}
		})
	}
}

// TestSuspendedVirtualMachineIsDeleted with the independent disk of another owner, which cannot be detached before its memory was
// discarded. The end of a runtime lease suspends without leaving anything deployed.
func TestSuspendedVirtualMachineIsDeleted(t *testing.T) {
	t.Parallel()
	for _, deployed := range []bool{false, true} {
		w := newEnv(t, vcdfake.Options{TaskRequests: 1})
		d, id := w.connect(t), identity
		made := create(t, d, newRequest(identity, newConfig(t, unchanged)))
		id.ProviderID = made.ProviderID
		disk := w.cloud.Attach(made.ID)
		w.cloud.Suspend(deployed)
		remove(t, d, id)
		if left := w.cloud.Leftovers(); len(left) > 0 || !disk() {
			t.Errorf("deployed %t: %q is left, or the disk is gone", deployed, left)
		}
	}
}

// TestTemplateWithMemory: what is made of one is suspended. Its memory is that of another computer and is discarded.
func TestTemplateWithMemory(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{Memory: true})
	create(t, w.connect(t), newRequest(identity, newConfig(t, unchanged)))
	if got := w.cloud.Counts()["discard"]; got != 1 {
		t.Errorf("the memory was discarded %d times, want once", got)
	}
}
