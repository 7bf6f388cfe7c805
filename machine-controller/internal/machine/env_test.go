// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/logtest"
)

// eventTimeout bounds waiting for real API servers; no test measures time by it.
const eventTimeout = 4 * time.Minute

// environment is two real API servers and a manager with the Machine controller, shared by
// the tests of this package and started by the first that uses it.
type environment struct {
	management, workload envtest.Server
	reconciler           *Reconciler
	// writes counts what the controller has written to the management cluster.
	writes atomic.Int64
	client client.Client
	nodes  client.Client
	log    logtest.TextRecorder
	stop   func()
}

var shared = &environment{
	management: envtest.Server{Project: true, Folders: []string{"testdata"}},
	stop:       func() {},
}

var startEnvironment = sync.OnceValue(func() error { return shared.start() })

func TestMain(m *testing.M) {
	envtest.Main(m, func() error { shared.stop(); return nil }, shared.workload.Stop, shared.management.Stop)
}

func (e *environment) start() error {
	config, err := e.management.Start()
	if err != nil {
		return err
	}
	nodes, err := e.workload.Start()
	if err != nil {
		return err
	}
	s, err := envtest.Scheme()
	if err != nil {
		return err
	}
	if e.client, err = client.New(config, client.Options{Scheme: s}); err != nil {
		return err
	}
	if e.nodes, err = client.New(nodes, client.Options{Scheme: s}); err != nil {
		return err
	}
	return e.startManager(config, s)
}

func (e *environment) startManager(config *rest.Config, s *runtime.Scheme) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewClient: index.NewClient, Logger: e.log.Logger(),
		Scheme: s, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultTransform: contract.Slim},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := e.register(mgr, config); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e.stop = func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "running the manager:", err)
		}
	}
	return nil
}

func (e *environment) register(mgr ctrl.Manager, config *rest.Config) error {
	inner, err := client.NewWithWatch(config, client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache(), Unstructured: true},
	})
	if err != nil {
		return err
	}
	workloads := workload.New(workload.Options{})
	if err := workloads.Register(mgr); err != nil {
		return err
	}
	reach := safety.Reachability{Since: time.Now()}
	e.reconciler = &Reconciler{
		Client: e.counting(inner), Live: mgr.GetAPIReader(), Workloads: workloads, Drainer: &drain.Drainer{}, Volumes: &volume.Waiter{},
		Guard: &safety.Guard{
			Reader: inner, Workload: workloads.State, Management: func() safety.Reachability { return reach },
			Default: policy.Default(), Period: time.Hour, Clock: clock.RealClock{},
		},
		Events: mgr.GetEventRecorder("test"), Clock: clock.RealClock{}, RemoteConditionsGracePeriod: 5 * time.Minute,
		Contract: &contract.Reader{Resolver: &contract.Resolver{Reader: inner}, Cached: inner, Watcher: &contract.Watcher{
			Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: clock.RealClock{},
			Owner: handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](mgr.GetScheme(), mgr.GetRESTMapper(), &clusterv1.Machine{}),
		}},
	}
	return e.reconciler.Register(mgr, "", controller.Options{MaxConcurrentReconciles: 10})
}

func (e *environment) counting(inner client.WithWatch) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			e.writes.Add(1)
			return c.Delete(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			e.writes.Add(1)
			return c.Patch(ctx, o, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			e.writes.Add(1)
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	})
}

// kubeconfig reaches the workload cluster.
func (e *environment) kubeconfig() ([]byte, error) {
	config, err := e.workload.Start()
	if err != nil {
		return nil, err
	}
	return envtest.Kubeconfig(config)
}
