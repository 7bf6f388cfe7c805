// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command quickstart runs Drover's main job on this machine: a management and a workload
// cluster, both real control planes on loopback, the managers as separate processes, and
// simulated machines that join as Nodes. It shows what happens, then stays up until Ctrl-C.
// With --once it runs the whole demo unattended, checks that nothing is left, and exits
// non-zero with the reason if anything is.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"drover.io/runtime/flagcheck"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	once, timeout, err := parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctx, once, timeout)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// parse reads the arguments. All are checked before --help is answered, which make uses to check them early.
func parse(args []string, stdout io.Writer) (once bool, timeout time.Duration, err error) {
	flags := pflag.NewFlagSet("quickstart", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&once, "once", false, "run the demo unattended and exit: 3 machines, scale to 5, roll, scale to 0, delete")
	flags.DurationVar(&timeout, "timeout", 5*time.Minute, "how long the demo may take with --once")
	err = flagcheck.Parse(flags, args)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		return false, 0, err
	}
	if wrong := cmp.Or(flagcheck.NoArguments(flags.Args()), flagcheck.AtLeast("--timeout", timeout, time.Second)); wrong != nil {
		return false, 0, wrong
	}
	if err != nil {
		fmt.Fprint(stdout, "Usage of quickstart:\n", flags.FlagUsages())
	}
	return once, timeout, err
}

func run(ctx context.Context, once bool, timeout time.Duration) (err error) {
	out := newView(os.Stdout)
	out.printStep("Drover quickstart")
	stack, err := framework.Start(ctx, framework.Options{Progress: out.printStep, LeaderElection: true})
	if err != nil {
		return err
	}
	defer func() {
		out.printStep("stopping every process")
		if stopErr := stack.Stop(); err == nil {
			err = stopErr
		}
	}()
	demo := &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}
	if once {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return runOnce(bounded, demo, out)
	}
	return runInteractive(ctx, demo, out)
}

// step is a part of the demo. Steps without a title belong to the one before.
type step struct {
	title string
	do    func(context.Context) error
}

// steps creates machines, changes them and deletes them.
func steps(demo *workflow.Workflow) []step {
	return []step{
		{"creating a Cluster and a MachineDeployment with 3 replicas", func(ctx context.Context) error { return demo.Create(ctx, 3) }},
		{"", func(ctx context.Context) error { return demo.AwaitRunning(ctx, 3) }},
		{"scaling to 5", func(ctx context.Context) error { return demo.Scale(ctx, 5) }},
		{"", func(ctx context.Context) error { return demo.AwaitRunning(ctx, 5) }},
		{"rolling to another instance type", func(ctx context.Context) error { return demo.Roll(ctx, "medium") }},
		{"", func(ctx context.Context) error { return demo.AwaitRunning(ctx, 5) }},
		{"scaling to 0", func(ctx context.Context) error { return demo.Scale(ctx, 0) }},
		{"", func(ctx context.Context) error { return demo.AwaitRunning(ctx, 0) }},
		{"deleting the Cluster", demo.Delete},
		{"checking that no object, Node, token or simulated host is left", demo.AwaitNothingLeft},
	}
}

// runOnce runs all steps.
func runOnce(ctx context.Context, demo *workflow.Workflow, out *view) error {
	began := time.Now()
	for _, step := range steps(demo) {
		if step.title != "" {
			out.printStep(step.title)
		}
		if err := out.showWhile(ctx, demo, step.do); err != nil {
			return err
		}
	}
	out.printStep(fmt.Sprintf("done in %s: nothing is left", time.Since(began).Round(100*time.Millisecond)))
	return nil
}

// runInteractive creates three machines and runs until ctx is done.
func runInteractive(ctx context.Context, demo *workflow.Workflow, out *view) error {
	out.printStep("creating a Cluster and a MachineDeployment with 3 replicas")
	if err := demo.Create(ctx, 3); err != nil {
		return err
	}
	if err := out.showWhile(ctx, demo, func(ctx context.Context) error { return demo.AwaitRunning(ctx, 3) }); err != nil {
		return err
	}
	out.printStep("3 machines are Ready Nodes")
	fmt.Printf(instructions, demo.Stack.Kubeconfig("management"), demo.Stack.Kubeconfig("workload"), demo.Stack.Dir)
	err := out.showWhile(ctx, demo, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println()
	return err
}

const instructions = `
In another terminal:

  export KUBECONFIG=%s
  kubectl get cluster,machinedeployment,machineset,machine,simmachine,bootstrapconfig -A
  kubectl scale machinedeployment demo-workers --replicas=5
  kubectl delete machine $(kubectl get machine -o name | head -1 | cut -d/ -f2)
  kubectl describe machinedeployment demo-workers

With the plugin that "make plugin" writes into bin, and bin in PATH:

  kubectl drover describe cluster demo
  kubectl drover why cluster/demo

The workload cluster, where the Nodes are:

  kubectl --kubeconfig=%s get nodes

Logs of the managers are in %s. Ctrl-C ends everything.

`
