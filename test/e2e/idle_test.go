// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"drover.io/test/framework"
)

// TestNothingIsWrittenWhenIdle brings machines up and then checks whether anything is still written: nothing
// may be, neither by heartbeats of the Nodes nor by a restart of every manager.
func TestNothingIsWrittenWhenIdle(t *testing.T) {
	ctx, flow := start(t, framework.Options{})
	run(ctx, t, func(ctx context.Context) error { return flow.Create(ctx, 3) }, running(flow, 3))

	settled, err := flow.AwaitNoWrites(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range flow.Stack.Managers() {
		m.Stop()
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := flow.AwaitHeartbeats(ctx, 2); err != nil {
		t.Fatal(err)
	}
	after, err := flow.ResourceVersions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for object, version := range after {
		if settled[object] != version {
			t.Errorf("%s was written though nothing had changed: %s, then %s", object, settled[object], version)
		}
	}
}
