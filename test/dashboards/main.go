// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command dashboards draws the dashboards as they look for a fleet of simulated machines: it runs real managers and a real
// Prometheus, evaluates each panel, and writes a picture of each dashboard for the documentation.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/test/framework"
	"drover.io/test/prometheus"
	"drover.io/test/workflow"
)

// pointsPerLine bounds the size of the pictures.
const pointsPerLine = 150

type options struct{ program, from, out string }

func main() {
	var o options
	pflag.StringVar(&o.program, "prometheus", "prometheus", "path of the Prometheus binary")
	pflag.StringVar(&o.from, "dashboards", "", "folder of the dashboards")
	pflag.StringVar(&o.out, "out", "", "folder that the pictures are written to")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (err error) {
	if o.from == "" || o.out == "" {
		return errors.New("--dashboards and --out are required")
	}
	targets, args, err := framework.MetricsAddresses()
	if err != nil {
		return err
	}
	progress := func(step string) { fmt.Println(step) }
	stack, err := framework.Start(ctx, framework.Options{LeaderElection: true, Args: args, Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	folder, err := os.MkdirTemp("", "drover-prometheus-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	server, err := prometheus.Start(prometheus.Options{Program: o.program, Dir: folder, Targets: targets})
	if err != nil {
		return err
	}
	defer server.Stop()
	flow := &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}
	background, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var failed error
	group.Go(func() { failed = schedule(background, stack, flow.Namespace) })
	start := time.Now()
	err = run{flow: flow, progress: progress}.all(ctx)
	cancel()
	group.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	end := time.Now()
	return o.draw(ctx, server, promv1.Range{Start: start, End: end, Step: max(time.Second, end.Sub(start)/pointsPerLine)})
}

// draw writes a picture of each dashboard.
func (o options) draw(ctx context.Context, source querier, r promv1.Range) error {
	files, err := filepath.Glob(filepath.Join(o.from, "*.json"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no dashboards", o.from))
	}
	for _, file := range files {
		d, err := readDashboard(file)
		if err != nil {
			return err
		}
		contents := make([]content, len(d.Panels))
		for i, p := range d.Panels {
			if contents[i], err = p.evaluate(ctx, source, r); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		picture, err := d.svg(contents, r.End.Sub(r.Start).Minutes())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		path := filepath.Join(o.out, strings.TrimSuffix(filepath.Base(file), ".json")+".svg")
		if err := os.WriteFile(path, picture, 0o644); err != nil { //nolint:gosec // documentation
			return err
		}
		fmt.Println(path)
	}
	return nil
}
