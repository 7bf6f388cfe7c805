// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"drover.io/test/kit"
)

// TestQuiet brings machines up and then looks whether anything is still written: nothing
// may be, neither by heartbeats of the Nodes nor by a restart of every manager.
func TestQuiet(t *testing.T) {
	ctx, told := begin(t, kit.Options{})
	tell(ctx, t, func(ctx context.Context) error { return told.Begin(ctx, 3) }, running(told, 3))

	settled, err := told.Settle(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range told.Stack.Managers() {
		m.Stop()
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := told.AwaitHeartbeats(ctx, 2); err != nil {
		t.Fatal(err)
	}
	after, err := told.Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for object, version := range after {
		if settled[object] != version {
			t.Errorf("%s was written though nothing had changed: %s, then %s", object, settled[object], version)
		}
	}
}
