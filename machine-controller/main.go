// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command machine-controller is the manager of Clusters, MachineDeployments, MachineSets
// and Machines. It knows no cloud and no operating system: infrastructure and bootstrap
// providers, ours or anybody's, run beside it and meet it in the API server.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/workload"
)

// heapGrowth is by how many percent the heap grows between two garbage collections, unless GOGC says otherwise. Nearly
// all of it are caches, which live as long as the process: half of Go's usual room costs little processor time.
const heapGrowth = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine-controller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(textlogger.NewLogger(o.log))
	rest, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the management cluster: %w", err)
	}
	rest.QPS, rest.Burst, rest.UserAgent = o.qps, o.burst, "drover-machine-controller"
	rest.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	mgr, err := newManager(rest, o)
	if err != nil {
		return err
	}
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	workloads := workload.New(workload.Options{
		Namespace: o.namespace, WatchFilter: o.watchFilter, UserAgent: rest.UserAgent,
		ProbeInterval: o.probePeriod, FailureThreshold: o.failures(),
	})
	if err := workloads.Register(mgr); err != nil {
		return fmt.Errorf("registering workload connections: %w", err)
	}
	if err := register(mgr, workloads, clock.RealClock{}, o); err != nil {
		return err
	}
	collector := &metrics.Collector{Reader: mgr.GetClient(), Leading: mgr.Elected(), Workers: o.workers}
	if err := collector.Register(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return mgr.Start(ctx)
}
