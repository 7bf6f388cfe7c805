// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider runs the manager of one cloud: the flags that all providers share, the caches, and the generic
// reconcilers. It has no behaviour of its own; the binaries under cmd call it with their cloud.
package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	corev1scheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/console"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/infra-providers/internal/journal"
	"drover.io/infra-providers/internal/machinetemplate"
	"drover.io/infra-providers/internal/orphan"
	"drover.io/infra-providers/internal/restart"
	"drover.io/runtime/manager"
	"drover.io/runtime/predicates"
)

// Run serves one cloud until ctx is done.
func Run[M driver.Machine, C any](ctx context.Context, cloud driver.Cloud[M, C], options *Options) error {
	mgr, err := newManager(ctx, "drover-infra-"+cloud.Name, options)
	if err != nil {
		return err
	}
	if err := Register(mgr, cloud, options); err != nil {
		return fmt.Errorf("registering controllers: %w", err)
	}
	counter := &inframachine.MachineCounter[M, C]{Cloud: cloud, Reader: mgr.GetClient(), Leading: mgr.Elected(), WatchFilter: predicates.WatchFilter(options.WatchFilter)}
	if err := metrics.Registry.Register(counter); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return mgr.Start(ctx)
}

// Register adds the reconcilers of a cloud to a manager.
func Register[M driver.Machine, C any](mgr ctrl.Manager, cloud driver.Cloud[M, C], options *Options) error {
	if cloud.Alternatives != nil && cloud.Offering == nil {
		return fmt.Errorf("cloud %q offers alternatives but no places to choose among", cloud.Name)
	}
	changes := &inframachine.Changes{}
	accounts := account.NewCache(cloud, account.Options{
		Secrets:        mgr.GetAPIReader(),
		Namespaces:     mgr.GetAPIReader(),
		OwnCredentials: options.ownCredentials(),
		Now:            time.Now,
		Changed:        changes.Notify,
		Journal:        journal.Journal[M]{NewMachine: cloud.NewMachine, NewMachineList: cloud.NewMachineList, Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
		Interval:       options.InventoryInterval,
		Workers:        options.WorkerCount,
	})
	if err := mgr.Add(accounts); err != nil {
		return err
	}
	memory, err := newMemory(mgr, cloud.Name, options)
	if err != nil {
		return err
	}
	machines := &inframachine.Reconciler[M, C]{
		Creating:    memory.Created,
		Cloud:       cloud,
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Accounts:    accounts,
		Events:      mgr.GetEventRecorder("drover-infra-" + cloud.Name),
		Changes:     changes,
		WatchFilter: predicates.WatchFilter(options.WatchFilter),
		Workers:     options.WorkerCount,
		Resync:      options.SyncPeriod,
		Jitter:      rand.Float64,
		Tracer:      manager.Tracer(mgr),
	}
	if err := machines.Register(mgr); err != nil {
		return err
	}
	restarts := &restart.Reconciler[M, C]{
		Cloud:       cloud,
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Accounts:    accounts,
		Events:      mgr.GetEventRecorder("drover-infra-" + cloud.Name),
		Now:         time.Now,
		WatchFilter: predicates.WatchFilter(options.WatchFilter),
		Workers:     options.WorkerCount,
		Tracer:      manager.Tracer(mgr),
	}
	if err := restarts.Register(mgr); err != nil {
		return err
	}
	if err := registerConsole(mgr, cloud, accounts, options); err != nil {
		return err
	}
	orphans := &orphan.Collector[M, C]{
		Cloud:    cloud,
		Accounts: accounts,
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Events:   mgr.GetEventRecorder("drover-infra-" + cloud.Name),
		Clock:    clock.RealClock{},
		Options:  options.Orphans,

		WatchFilter: predicates.WatchFilter(options.WatchFilter),
		Namespace:   options.Namespace,
		Memory:      memory,
		Core:        client.ObjectKey{Namespace: memory.Key.Namespace, Name: coreLease},
	}
	if err := mgr.Add(orphans); err != nil {
		return err
	}
	templates := &machinetemplate.Reconciler[M, C]{
		Cloud:       cloud,
		Client:      mgr.GetClient(),
		Accounts:    accounts,
		WatchFilter: predicates.WatchFilter(options.WatchFilter),
		Workers:     options.WorkerCount,
		Jitter:      rand.Float64,
	}
	return templates.Register(mgr)
}

// registerConsole adds the reconciler that reads consoles to a manager, unless consoles are not to be read.
func registerConsole[M driver.Machine, C any](mgr ctrl.Manager, cloud driver.Cloud[M, C], accounts *account.Cache[M, C], options *Options) error {
	if options.ConsoleAfter <= 0 {
		return nil
	}
	consoles := &console.Reconciler[M, C]{
		Cloud:       cloud,
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Accounts:    accounts,
		Events:      mgr.GetEventRecorder("drover-infra-" + cloud.Name),
		Now:         time.Now,
		WatchFilter: predicates.WatchFilter(options.WatchFilter),
		Workers:     options.WorkerCount,
		After:       options.ConsoleAfter,
		Tracer:      manager.Tracer(mgr),
	}
	return consoles.Register(mgr)
}

// coreLease is the name of the Lease by which machine-controller is elected, in the provider's own namespace.
const coreLease = "drover-machine-controller"

// newMemory adds the Memory to the manager.
func newMemory(mgr ctrl.Manager, cloud string, options *Options) (*orphan.Memory, error) {
	live, err := manager.UncachedClient(mgr)
	if err != nil {
		return nil, fmt.Errorf("making a client for the heartbeat: %w", err)
	}
	holder, err := manager.Identity()
	if err != nil {
		return nil, err
	}
	memory := &orphan.Memory{
		Client: live,
		Key:    client.ObjectKey{Namespace: options.OwnNamespace(), Name: "drover-infra-" + cloud + "-heartbeat"},
		Holder: holder,
		Clock:  clock.RealClock{},
	}
	return memory, mgr.Add(memory)
}

// Scheme has the kinds that a provider uses.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1scheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

func newManager(ctx context.Context, name string, options *Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	return manager.New(ctx, name, &options.Options, ctrl.Options{Scheme: scheme, Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}})
}
