// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench counts what a machine's life costs: the whole stack runs with simulated
// hosts, N machines are made, left alone, rolled, and scaled away, and after each phase the
// management cluster's own audit log says how many requests each manager sent. Requests are
// exact; times and CPU depend on the machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"

	"drover.io/test/kit"
	"drover.io/test/story"
)

func main() {
	machines := pflag.Int("machines", 100, "how many machines to make")
	timeout := pflag.Duration("timeout", 30*time.Minute, "how long all phases may take")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := run(bounded, *machines); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, machines int) (err error) {
	stack, err := kit.Start(ctx, kit.Options{Audit: []byte(policy)})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := stack.Stop(); err == nil {
			err = stopErr
		}
	}()
	told := &story.Story{Stack: stack, Namespace: "default", Cluster: "bench"}
	n := int32(machines)
	settle := func(ctx context.Context) error {
		_, err := told.Settle(ctx)
		return err
	}
	phases := []phase{
		{"create", []func(context.Context) error{func(ctx context.Context) error { return told.Begin(ctx, n) }, running(told, machines), settle}},
		{"idle", []func(context.Context) error{func(ctx context.Context) error { return told.AwaitHeartbeats(ctx, 2) }}},
		{"restart", []func(context.Context) error{func(context.Context) error { return restart(stack) }, settle}},
		{"roll", []func(context.Context) error{func(ctx context.Context) error { return told.Roll(ctx, "medium") }, running(told, machines), settle}},
		{"scale to 0", []func(context.Context) error{func(ctx context.Context) error { return told.Scale(ctx, 0) }, running(told, 0), settle}},
	}
	meter := newMeter(stack)
	for _, phase := range phases {
		fmt.Fprintln(os.Stderr, "measuring:", phase.name)
		if err := meter.measure(ctx, phase); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return meter.report(os.Stdout, machines)
}

// phase is one thing to do, and to wait for.
type phase struct {
	name  string
	steps []func(context.Context) error
}

func running(told *story.Story, n int) func(context.Context) error {
	return func(ctx context.Context) error { return told.AwaitRunning(ctx, n) }
}

func restart(stack *kit.Stack) error {
	for _, m := range stack.Managers() {
		m.Stop()
		if err := m.Start(); err != nil {
			return err
		}
	}
	return nil
}

// policy records who asked for what, once each, and nothing of what was said. Leases and
// reviews of access are not part of a machine's life.
const policy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: None
  resources:
  - group: coordination.k8s.io
- level: Metadata
  userGroups: ["system:serviceaccounts:drover-system"]
- level: None
`
