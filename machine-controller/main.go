// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command machine-controller is the manager of Clusters, MachineDeployments, MachineSets
// and Machines. It contains nothing of a cloud or an operating system: infrastructure and bootstrap
// providers are other processes, which it only meets in the API server.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/manager"
	"drover.io/runtime/predicates"
)

// heapGrowth is by how many percent the heap grows between two garbage collections, unless GOGC is set. Nearly
// all of it are caches, which exist as long as the process: half of Go's usual limit costs little processor time.
const heapGrowth = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	manager.Main("machine-controller", run)
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	mgr, err := newManager(ctx, o)
	if err != nil {
		return err
	}
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	claimer, err := newClaimer(mgr, o)
	if err != nil {
		return err
	}
	workloads := workload.New(workload.Options{
		Namespace: o.Namespace, Watch: predicates.WatchFilter(o.WatchFilter), UserAgent: name,
		ProbeInterval: o.probePeriod, FailureThreshold: o.failures(), Claimer: claimer,
		AllowProxy: o.allowProxy, NodeMemory: o.nodeMemory.Value(),
	})
	if err := workloads.Register(mgr); err != nil {
		return fmt.Errorf("registering workload connections: %w", err)
	}
	if err := register(mgr, workloads, clock.RealClock{}, o); err != nil {
		return err
	}
	collector := &metrics.Collector{Reader: mgr.GetClient(), Watch: predicates.WatchFilter(o.WatchFilter), Leading: mgr.Elected(), Workers: o.WorkerCount}
	if err := ctrlmetrics.Registry.Register(collector); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return mgr.Start(ctx)
}
