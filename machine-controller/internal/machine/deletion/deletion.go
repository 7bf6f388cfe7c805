// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion deletes everything that belongs to a Machine, in this order: pre-drain hooks, drain, volumes,
// pre-terminate hooks, InfraMachine with its instance, BootstrapConfig, Node. It acts on what the machine controller
// has observed and handed over as a State, and never waits inside a call: Run returns what is awaited. It does not
// remove the finalizer of the Machine; the machine controller does when Run is done.
package deletion

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/tracing"
)

const (
	// objectRetry is how often an object whose deletion is awaited is read again; its events come first.
	objectRetry = 30 * time.Second
	// answerRetry is how long to wait after a request that the workload cluster did not answer.
	answerRetry = 2 * time.Second
)

// Options are what a Deleter needs; all are required.
type Options struct {
	Client    client.Client
	Workloads *workload.Connections
	Drainer   *drain.Drainer
	Volumes   *volume.Waiter
	Guard     *safety.Guard
	Events    events.EventRecorder
	Clock     clock.PassiveClock
	// Requested records the deletions of InfraMachines and BootstrapConfigs that the API server has accepted.
	Requested *Requested
}

// Deleter deletes Machines.
type Deleter struct {
	steps     []step
	stopwatch *stopwatch
}

// A step is one stage of a deletion. Unless it is done, its Progress states what is awaited, and from whom.
type step interface {
	run(ctx context.Context, s *State) (Progress, error)
}

// Progress is the result of a step, with the reason and message of the Deleting condition.
type Progress struct {
	// Done means that the next step may begin.
	Done            bool
	Reason, Message string
	// RequeueAfter is when the step has to run again although no event will arrive; zero is never.
	RequeueAfter time.Duration
}

var done = Progress{Done: true}

// New returns a Deleter with the steps of a deletion, in order.
func New(o Options) *Deleter {
	recorder := &recorder{o.Events}
	drain := drainStep{o.Client, o.Workloads, o.Drainer, recorder, o.Clock, o.Guard}
	return &Deleter{steps: []step{
		preDrainHooks(o.Clock),               // the owners of the hooks act before the drain
		drain,                                // no Pod is lost
		detachStep{drain, o.Volumes},         // no volume is detached by force
		preTerminateHooks(o.Clock),           // the owners of the hooks act before the instance is deleted
		instanceStep{o.Client, o.Requested},  // no instance is left running
		bootstrapStep{o.Client, o.Requested}, // no bootstrap data is left
		&nodeStep{machines: o.Client, workloads: o.Workloads, events: recorder, clock: o.Clock}, // no Node is left in the workload cluster
	}, stopwatch: newStopwatch(o.Clock)}
}

// Run executes the steps until one has to wait. Each step is safe to repeat.
func (d *Deleter) Run(ctx context.Context, s State) (Progress, error) {
	trace := tracing.FromContext(ctx)
	at := d.stopwatch.start(trace, &s)
	for i, step := range d.steps {
		progress, err := step.run(tracing.NewContext(ctx, trace.Within(spanNames[i])), &s)
		metrics.IncOperationErrors(metrics.Operation(step), err)
		if err != nil || !progress.Done {
			d.stopwatch.stop(trace, &s, at, i)
			return progress, err
		}
		d.stopwatch.passed(trace, &at, i, &s)
	}
	d.stopwatch.stop(trace, &s, at, len(d.steps))
	return Progress{Done: true, Reason: clusterv1.MachineDeletingDeletionCompletedReason}, nil
}
