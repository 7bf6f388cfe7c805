// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package statuswriter writes the status of objects that sum up many others: MachineDeployments, MachineSets and
// Clusters. Counters that move with every Machine are written once per Period; a change that other controllers or users
// wait for is urgent, and written at once. What is summed up, and what is urgent, the controllers decide.
package statuswriter

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/expiring"
)

// Period is how long counters that sum up many Machines may be outdated while they change.
const Period = 2 * time.Second

// SummaryPeriod is how much longer, for each Machine, the summary of their conditions may be outdated. The cost of a
// summary grows with the number of Machines, by some 7 µs for a Machine whose condition has a message and less than
// one for any other; with this the cost for each Machine does not grow.
const SummaryPeriod = time.Millisecond

// Writer writes the status of objects that sum up others.
type Writer struct {
	client client.Client
	// Writes spaces out what is not urgent, summaries what is expensive to compute.
	Writes, summaries *expiring.Limiter[types.UID]
}

// New returns a Writer that writes once per Period.
func New(c client.Client, clk clock.PassiveClock) *Writer {
	return &Writer{
		client: c, Writes: &expiring.Limiter[types.UID]{Clock: clk, Period: Period}, summaries: &expiring.Limiter[types.UID]{Clock: clk},
	}
}

// Write writes the status, or returns when it is to be written.
func (w *Writer) Write(ctx context.Context, before, after client.Object, urgent bool) (reconcile.Result, error) {
	if remaining := w.remaining(after, urgent); remaining > 0 {
		changed, err := patch.StatusChanged(before, after)
		if err != nil || !changed {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: remaining}, nil
	}
	version := after.GetResourceVersion()
	err := patch.Status(ctx, w.client, before, after)
	if after.GetResourceVersion() != version {
		w.Writes.Mark(after.GetUID())
	}
	return reconcile.Result{}, err
}

// Summary is the part of a status that is expensive to compute: Set sets it, from so many Machines.
type Summary struct {
	Machines int
	Set      func()
}

// WriteSummary is Write with a summary. The summary is not computed while the status can wait, nor while the last
// summary is recent: the status is then written with the last one, and a reconcile is due for the next.
func (w *Writer) WriteSummary(ctx context.Context, before, after client.Object, urgent bool, summary Summary) (reconcile.Result, error) {
	if remaining := w.remaining(after, urgent); remaining > 0 {
		return reconcile.Result{RequeueAfter: remaining}, nil
	}
	recent := w.summaries.Remaining(after.GetUID())
	if urgent || recent == 0 {
		recent = 0
		summary.Set()
		w.summaries.MarkFor(after.GetUID(), time.Duration(summary.Machines)*SummaryPeriod)
	}
	result, err := w.Write(ctx, before, after, urgent)
	if result.RequeueAfter == 0 {
		result.RequeueAfter = recent
	}
	return result, err
}

// remaining is how long the status of an object can wait.
func (w *Writer) remaining(object client.Object, urgent bool) time.Duration {
	if urgent {
		return 0
	}
	return w.Writes.Remaining(object.GetUID())
}

// Counts are the counters of replicas in a status.
type Counts struct{ Desired, Replicas, Ready, Available, UpToDate int32 }

// Complete reports whether all desired replicas exist, are ready, available and up to date, and no others exist.
func (c Counts) Complete() bool {
	return c == Counts{c.Desired, c.Desired, c.Desired, c.Desired, c.Desired}
}

// Urgent reports whether the change from one set of counts to the next is urgent: the replicas are complete, or there
// are more of them, on which decisions about further growth depend.
func (c Counts) Urgent(next Counts) bool {
	return next.Replicas > c.Replicas || next.Complete() && next != c
}

// ConditionsChanged reports whether a condition of one of the types was added, removed or changed its status.
func ConditionsChanged(before, after conditions.Getter, types ...string) bool {
	for _, each := range types {
		if status(before, each) != status(after, each) {
			return true
		}
	}
	return false
}

func status(of conditions.Getter, conditionType string) metav1.ConditionStatus {
	if condition := conditions.Get(of, conditionType); condition != nil {
		return condition.Status
	}
	return ""
}
