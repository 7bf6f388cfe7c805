// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/claim"
	"drover.io/machine-controller/internal/cluster"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machine"
	"drover.io/machine-controller/internal/machinedeployment"
	"drover.io/machine-controller/internal/machinehealthcheck"
	"drover.io/machine-controller/internal/machinepolicy"
	"drover.io/machine-controller/internal/machineset"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/templateowner"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/manager"
	"drover.io/runtime/predicates"
)

// name is the name of the manager's Lease, its events and its user agent.
const name = "drover-machine-controller"

func newManager(ctx context.Context, o *options) (ctrl.Manager, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, droverpolicyv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("building scheme: %w", err)
		}
	}
	return manager.New(ctx, name, &o.Options, ctrl.Options{
		Scheme:    s,
		Cache:     cache.Options{SyncPeriod: &o.SyncPeriod, DefaultTransform: contract.Slim},
		NewClient: index.NewClient,
		Client:    client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
}

// newClaimer makes the claimer of workload clusters, and adds the store of its claims to the manager.
func newClaimer(mgr ctrl.Manager, o *options) (*claim.Claimer, error) {
	live, err := manager.UncachedClient(mgr)
	if err != nil {
		return nil, fmt.Errorf("making a client for the claim history: %w", err)
	}
	holder, err := manager.Identity()
	if err != nil {
		return nil, err
	}
	history := &claim.History{Client: live, Namespace: o.OwnNamespace(), Holder: holder, Clock: clock.RealClock{}}
	if err := mgr.Add(history); err != nil {
		return nil, fmt.Errorf("adding the claim history: %w", err)
	}
	return &claim.Claimer{History: history, Clusters: mgr.GetClient(), Clock: clock.RealClock{}}, nil
}

// register adds every controller.
func register(mgr ctrl.Manager, workloads *workload.Connections, clk clock.PassiveClock, o *options) error {
	watch := predicates.WatchFilter(o.WatchFilter)
	resolver := &contract.Resolver{Reader: mgr.GetClient()}
	bounded, err := manager.BoundedReader(mgr, contract.MaxElements)
	if err != nil {
		return fmt.Errorf("making a client for templates: %w", err)
	}
	templates := &contract.Templates{Resolver: resolver, Live: bounded}
	limits := controller.Options{MaxConcurrentReconciles: o.WorkerCount}
	recorder := mgr.GetEventRecorder(name)
	guard, err := newGuard(mgr, workloads, clk, o)
	if err != nil {
		return err
	}
	// reader caches provider objects; their changes trigger a reconcile of the owner, of the given kind.
	reader := func(owner client.Object) *contract.Reader {
		return &contract.Reader{Resolver: resolver, Watch: watch, Cached: mgr.GetClient(), Watcher: &contract.Watcher{
			Live: mgr.GetAPIReader(), Namespace: o.Namespace, Cache: mgr.GetCache(), Clock: clk,
			Owner: handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](mgr.GetScheme(), mgr.GetRESTMapper(), owner),
		}}
	}
	for _, each := range []interface {
		Register(ctrl.Manager, predicates.WatchFilter, controller.Options) error
	}{
		&cluster.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Contract: reader(&clusterv1.Cluster{}), Workloads: workloads, Events: recorder, Clock: clk,
		},
		&machinedeployment.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Templates: templates, Guard: guard, Events: recorder, Clock: clk},
		&machineset.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Templates: templates, Guard: guard, Workloads: workloads, Events: recorder, Clock: clk,
		},
		&machine.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Contract: reader(&clusterv1.Machine{}), Workloads: workloads, Drainer: &drain.Drainer{}, Volumes: &volume.Waiter{},
			Guard:  guard,
			Events: recorder, Clock: clk, RemoteConditionsGracePeriod: o.remoteGrace, Workers: o.WorkerCount,
			SyncLabels: o.syncLabels, SyncAnnotations: o.syncAnnotations, Tracer: manager.Tracer(mgr),
		},
		&machinepolicy.Reconciler{Client: mgr.GetClient()},
		&templateowner.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Contract: &contract.Reader{
			Resolver: resolver, Cached: mgr.GetClient(),
			Watcher: &contract.Watcher{Live: mgr.GetAPIReader(), Namespace: o.Namespace, Cache: mgr.GetCache(), Clock: clk},
		}},
		&machinehealthcheck.Reconciler{
			Client: mgr.GetClient(), Live: bounded, Workloads: workloads, Guard: guard, Events: recorder, Clock: clk, Workers: o.WorkerCount,
		},
	} {
		if err := each.Register(mgr, watch, limits); err != nil {
			return err
		}
	}
	return nil
}

// newGuard makes the guard that decides about every creation and replacement, and adds the probe of the management cluster
// to the manager.
func newGuard(mgr ctrl.Manager, workloads *workload.Connections, clk clock.PassiveClock, o *options) (*safety.Guard, error) {
	prober := &safety.Prober{Config: mgr.GetConfig(), Clock: clock.RealClock{}, Period: o.probePeriod, Timeout: o.probeTimeout}
	if err := prober.Register(mgr); err != nil {
		return nil, err
	}
	settings := policy.Default()
	settings.Up, settings.Down = o.safetyUp, o.safetyDown
	return &safety.Guard{
		Reader: mgr.GetClient(), Watch: predicates.WatchFilter(o.WatchFilter), Workload: workloads.State, Management: prober.Reachability, Default: settings, Period: o.overshooting, Clock: clk,
	}, nil
}
