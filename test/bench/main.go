// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what many machines cost: our core and upstream's, one after the
// other, do the same work on real control planes, with an infrastructure stand-in that costs next to
// nothing. It prints tables of ratios. Requests are counted in the API servers' audit logs and are
// exact; times depend on the machine and are compared within a round only.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/test/bench/report"
	"drover.io/test/controlplane/binaries"
	"drover.io/test/interop/peer"
)

// choice has the user's options.
type choice struct {
	scenarios, cores, args, from []string
	rounds                       int
	timeout, idle                time.Duration
	calls                        bool
	json, docs, until            string
}

func main() {
	var c choice
	pflag.StringSliceVar(&c.scenarios, "scenarios", []string{"200"}, "scenarios to measure: 100, 200, 1000, 5000, 200x5 (clusters x machines), 1000-flap, 200-full (with our bootstrap and simulated hosts)")
	pflag.StringSliceVar(&c.cores, "cores", []string{"drover", "upstream"}, "cores to measure: drover, upstream (newest API version only), upstream-shipped (all its API versions)")
	pflag.StringSliceVar(&c.args, "core-args", nil, "further arguments of the core, such as --pprof-bind-address=127.0.0.1:6060 of ours")
	pflag.IntVar(&c.rounds, "rounds", 1, "how often; the cores take turns, and ratios are medians")
	pflag.DurationVar(&c.timeout, "timeout", 30*time.Minute, "how long one scenario may take under one core")
	pflag.DurationVar(&c.idle, "idle", 30*time.Second, "idle time of a scenario")
	pflag.StringVar(&c.until, "until", report.Delete, "the last phase of a scenario: create, idle, restart, roll or delete")
	pflag.BoolVar(&c.calls, "calls", false, "print every kind of request too")
	pflag.StringVar(&c.json, "json", "", "write everything that was measured to this file, too")
	pflag.StringSliceVar(&c.from, "from", nil, "show what --json wrote to these files before, and measure nothing")
	pflag.StringVar(&c.docs, "docs", "", "write the tables and plots of the documentation into this folder")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c choice) run(ctx context.Context) error {
	get := c.measure
	if len(c.from) > 0 {
		get = c.read
	}
	runs, err := get(ctx)
	if len(runs) == 0 {
		return err
	}
	// Results of hours are kept if one run failed, but the documentation has complete runs only.
	fmt.Printf("%s", report.Tables(runs))
	if err != nil {
		c.docs = ""
	}
	return errors.Join(err, c.write(runs))
}

// read takes up what was measured before.
func (c choice) read(context.Context) (runs []report.Run, err error) {
	for _, path := range c.from {
		more, err := report.ReadJSON(path)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		runs = append(runs, more...)
	}
	return runs, nil
}

func (c choice) measure(ctx context.Context) (runs []report.Run, err error) {
	if c.docs != "" && c.until != report.Delete {
		return nil, fmt.Errorf("--docs: the documentation has complete runs only: omit --until=%s", c.until)
	}
	scenarios, err := find(c.scenarios, c.idle, c.until)
	if err != nil {
		return nil, err
	}
	cores, err := choose(c.cores, c.args)
	if err != nil {
		return nil, err
	}
	peers, err := build(ctx, cores)
	if err != nil {
		return nil, err
	}
	for _, workload := range scenarios {
		for round := range c.rounds {
			for _, core := range cores {
				fmt.Fprintf(os.Stderr, "measuring %s with %s, round %d of %d\n", workload.name, core.name, round+1, c.rounds)
				measured, err := c.one(ctx, core, workload, peers)
				if err != nil {
					return runs, fmt.Errorf("%s with %s: %w", workload.name, core.name, err)
				}
				runs = append(runs, measured)
			}
		}
	}
	return runs, nil
}

func (c choice) one(ctx context.Context, core core, of scenario, peers *peer.Peers) (report.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	measured, err := run(ctx, core, of, peers)
	if c.calls {
		report.Calls(os.Stdout, measured)
	}
	return measured, err
}

// write stores what was measured in the files of the flags --json and --docs.
func (c choice) write(runs []report.Run) error {
	if c.json != "" {
		if err := report.WriteJSON(c.json, runs); err != nil {
			return err
		}
	}
	if c.docs != "" {
		return report.WriteDocs(c.docs, runs)
	}
	return nil
}

// build compiles upstream's core if it takes part.
func build(ctx context.Context, cores []core) (*peer.Peers, error) {
	for _, core := range cores {
		if !core.upstream {
			continue
		}
		root, err := binaries.Root()
		if err != nil {
			return nil, err
		}
		return peer.Build(ctx, root, func(step string) { fmt.Fprintln(os.Stderr, step) }, peer.Core)
	}
	return nil, nil
}
