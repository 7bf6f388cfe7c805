// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package providertest runs the provider of a cloud in a test, with the controllers and the options of its command. The
// tests of drivers with a real API server call it; it is never part of a binary.
package providertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/runtime/manager"
)

// Serve runs the provider of a cloud for a new namespace with a Cluster, until the test ends.
func Serve[M driver.Machine, C any](t *testing.T, shared *testenv.Shared, cloud driver.Cloud[M, C]) *testenv.Harness {
	t.Helper()
	h := shared.NewHarness(t, cloud.Name)
	Run(t, shared.Provider(t), h.Home.Namespace, cloud)
	return h
}

// Run runs the provider of a cloud for one namespace until the test ends or stop is called.
func Run[M driver.Machine, C any](t *testing.T, config *rest.Config, namespace string, cloud driver.Cloud[M, C]) (stop func()) {
	t.Helper()
	scheme, err := provider.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Several providers of one process register controllers of the same names.
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	options := &provider.Options{Options: manager.Options{WorkerCount: 4, SyncPeriod: time.Minute}, OwnCredentials: []string{"*"}, InventoryInterval: time.Minute}
	if err := provider.Register(mgr, cloud, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
