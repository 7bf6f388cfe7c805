// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"drover.io/test/framework"
	"drover.io/test/workflow"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the moments at which managers are killed")
	kills = flag.Int("kills", 4, "how often each manager is killed during its workflow")
)

// events is the least number of changes of Machines in a workflow; the kills are among them.
const events = 60

// TestKill kills one manager again and again, without warning and at random moments of the
// workflow, counted in changes of Machines, and starts it again. The workflow must end as usual.
func TestKill(t *testing.T) {
	ctx, flow := start(t, framework.Options{})
	for i, name := range []string{"machine-controller", "bootstrap", "infra-sim"} {
		t.Run(name, func(t *testing.T) {
			moments := rand.New(rand.NewPCG(*seed, uint64(i)))
			watching, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- killAt(watching, flow, manager(flow, name), moments) }()
			run(ctx, t,
				func(ctx context.Context) error { return flow.Create(ctx, 3) }, running(flow, 3),
				scale(flow, 5), running(flow, 5),
				func(ctx context.Context) error { return flow.Roll(ctx, "medium") }, running(flow, 5),
				scale(flow, 0), running(flow, 0),
				flow.Delete, flow.AwaitNothingLeft,
			)
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			return // the next workflow would begin with what is left
		}
	}
}

func manager(flow *workflow.Workflow, name string) *framework.Manager {
	for _, m := range flow.Stack.Managers() {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// killAt ends the manager whenever the number of changes seen reaches one of the moments.
func killAt(ctx context.Context, flow *workflow.Workflow, other *framework.Manager, moments *rand.Rand) error {
	due := map[int]bool{}
	for range *kills {
		due[1+moments.IntN(events)] = true
	}
	other.AllowExit(true)
	defer other.AllowExit(false)
	changes, err := flow.MachineChanges(ctx)
	if err != nil {
		return err
	}
	seen, killed := 0, 0
	for range changes {
		seen++
		if !due[seen] {
			continue
		}
		other.Kill()
		killed++
		if err := other.Start(); err != nil {
			return err
		}
	}
	if killed == 0 {
		return fmt.Errorf("the workflow had only %d changes: %s was never killed", seen, other.Name)
	}
	return other.Err()
}
