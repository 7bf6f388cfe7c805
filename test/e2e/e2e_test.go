// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the main workflow with real processes: two control planes, the managers
// under the permissions that we ship, simulated hosts that read their bootstrap data. Each
// test starts a stack of its own, so that leftovers of one are not hidden in another; the workflows of one test leave nothing.
package e2e

import (
	"context"
	"testing"
	"time"

	"drover.io/test/framework"
	"drover.io/test/workflow"
)

// timeout bounds the workflows of a test; it does not measure how long one takes.
const timeout = 20 * time.Minute

// start starts a stack and returns a workflow in it.
func start(t *testing.T, options framework.Options) (context.Context, *workflow.Workflow) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	options.Progress = func(step string) { t.Log(step) }
	stack, err := framework.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	return ctx, &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}
}

// run runs the steps in order and fails the test at the first that fails.
func run(ctx context.Context, t *testing.T, steps ...func(context.Context) error) {
	t.Helper()
	for i, step := range steps {
		if err := step(ctx); err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
}

func running(s *workflow.Workflow, n int) func(context.Context) error {
	return func(ctx context.Context) error { return s.AwaitRunning(ctx, n) }
}

func scale(s *workflow.Workflow, n int32) func(context.Context) error {
	return func(ctx context.Context) error { return s.Scale(ctx, n) }
}
