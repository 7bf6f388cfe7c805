// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/tracing"
)

// syncTimeout bounds one readiness check. A kubelet waits a second for the answer.
const syncTimeout = 500 * time.Millisecond

// readyManager is a manager that counts the controllers whose workers have not started yet.
type readyManager struct {
	ctrl.Manager
	// elects is false where the only replica leads without a Lease.
	elects  bool
	pending atomic.Int64
	// tracer is nil where tracing is off.
	tracer *tracing.Tracer
}

// Add adds a runnable. A controller is counted until its workers have started.
func (m *readyManager) Add(runnable ctrlmanager.Runnable) error {
	if c, ok := runnable.(controller.Controller); ok {
		m.pending.Add(1)
		if err := c.Watch(&workersStartedSource{controller: c, started: func() { m.pending.Add(-1) }}); err != nil {
			return fmt.Errorf("observing the start of a controller: %w", err)
		}
	}
	return m.Manager.Add(runnable)
}

// Start runs the manager until the context ends. controller-runtime 0.24 does not return where the context ends before all
// caches are in sync, as without a permission to list: it spins until the process is killed. Then nothing has been
// reconciled, and this one returns once the time for an orderly end is over.
func (m *readyManager) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Manager.Start(ctx) }()
	defer m.flush(ctx)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if m.synced(context.WithoutCancel(ctx)) {
		return <-ended
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(shutdownTimeout + time.Second): // the manager's own timeout comes first
		return errors.New("ended before the caches were in sync: the log names what could not be listed")
	}
}

// synced is whether all caches are in sync.
func (m *readyManager) synced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return m.GetCache().WaitForCacheSync(ctx)
}

// check is the readiness check. Every replica is ready once its caches are in sync. The leader also has to work: the
// workers of all controllers have started, which they do when the caches that they read are in sync.
func (m *readyManager) check(request *http.Request) error {
	if m.leads() {
		if pending := m.pending.Load(); pending > 0 {
			return fmt.Errorf("%d controllers have not started: their caches are not in sync", pending)
		}
		return nil
	}
	if !m.synced(request.Context()) {
		return errors.New("the caches are not in sync")
	}
	return nil
}

func (m *readyManager) leads() bool {
	select {
	case <-m.Elected():
		return true
	default:
		return !m.elects
	}
}

// workersStartedSource is a source without events, by which the start of a controller's workers is observed: a controller starts
// its sources before its workers, and a source that is added meanwhile after them.
type workersStartedSource struct {
	controller controller.Controller
	started    func()
	calls      atomic.Int64
}

// Start implements source.Source. At its first call the workers have not started, at the second they have.
func (s *workersStartedSource) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if s.calls.Add(1) > 1 {
		s.started()
		return nil
	}
	go func() { _ = s.controller.Watch(s) }() // returns what Start returns: nil
	return nil
}

func (*workersStartedSource) String() string { return "start of the workers" }
