// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	policyv1 "drover.io/api/policy/v1alpha1"
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
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
)

func newManager(config *rest.Config, o *options) (ctrl.Manager, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("building scheme: %w", err)
		}
	}
	caching := cache.Options{SyncPeriod: &o.syncPeriod, DefaultTransform: contract.Slim}
	if o.namespace != "" {
		caching.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        s,
		Cache:                         caching,
		NewClient:                     index.NewClient,
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		PprofBindAddress:              o.pprofAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "drover-machine-controller",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding readiness check: %w", err)
	}
	return mgr, nil
}

// register adds every controller, from the whole to the parts.
func register(mgr ctrl.Manager, workloads *workload.Connections, clk clock.PassiveClock, o *options) error {
	resolver := &contract.Resolver{Reader: mgr.GetClient()}
	templates := &contract.Templates{Resolver: resolver, Live: mgr.GetAPIReader()}
	limits := controller.Options{MaxConcurrentReconciles: o.workers}
	recorder := mgr.GetEventRecorder("drover-machine-controller")
	guard, err := newGuard(mgr, workloads, clk, o)
	if err != nil {
		return err
	}
	// reader fills the cache with provider objects; their changes wake the owner, of the given kind.
	reader := func(owner client.Object) *contract.Reader {
		return &contract.Reader{Resolver: resolver, Cached: mgr.GetClient(), Watcher: &contract.Watcher{
			Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: clk,
			Owner: handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](mgr.GetScheme(), mgr.GetRESTMapper(), owner),
		}}
	}
	for _, each := range []interface {
		Register(ctrl.Manager, string, controller.Options) error
	}{
		&cluster.Reconciler{
			Client: mgr.GetClient(), Contract: reader(&clusterv1.Cluster{}), Workloads: workloads, Events: recorder, Clock: clk,
		},
		&machinedeployment.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Guard: guard, Events: recorder, Clock: clk},
		&machineset.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Templates: templates, Guard: guard, Workloads: workloads, Events: recorder, Clock: clk,
		},
		&machine.Reconciler{
			Client: mgr.GetClient(), Contract: reader(&clusterv1.Machine{}), Workloads: workloads, Drainer: &drain.Drainer{}, Volumes: &volume.Waiter{},
			Guard:  guard,
			Events: recorder, Clock: clk, RemoteConditionsGracePeriod: o.remoteGrace,
			SyncLabels: o.syncLabels, SyncAnnotations: o.syncAnnotations,
		},
		&machinepolicy.Reconciler{Client: mgr.GetClient()},
		&machinehealthcheck.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workloads: workloads, Guard: guard, Events: recorder, Clock: clk,
		},
	} {
		if err := each.Register(mgr, o.watchFilter, limits); err != nil {
			return err
		}
	}
	return nil
}

// newGuard makes the guard that every creation and every replacement passes, and lets the
// manager probe the management cluster for it.
func newGuard(mgr ctrl.Manager, workloads *workload.Connections, clk clock.PassiveClock, o *options) (*safety.Guard, error) {
	prober := &safety.Prober{Config: mgr.GetConfig(), Clock: clock.RealClock{}, Period: o.probePeriod, Timeout: o.probeTimeout}
	if err := prober.Register(mgr); err != nil {
		return nil, err
	}
	policy := safety.Default()
	policy.Up, policy.Down = o.safetyUp, o.safetyDown
	return &safety.Guard{
		Reader: mgr.GetClient(), Workload: workloads.State, Management: prober.Reach, Default: policy, Period: o.overshooting, Clock: clk,
	}, nil
}
