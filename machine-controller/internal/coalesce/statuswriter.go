// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/patch"
)

// TellPeriod is how long counters that sum up many Machines may be behind while they move.
const TellPeriod = 2 * time.Second

// SumPeriod is how much longer, for each Machine, what all their conditions come to may be behind. The
// work of a sum grows with the fleet, by some 7 µs for a Machine that has something to tell and less than
// one for any other; with this what a Machine costs does not.
const SumPeriod = time.Millisecond

// StatusWriter writes the status of what sums up others. Counters that move with every Machine are written
// once in a while; what somebody waits for is pressing, and written at once.
type StatusWriter struct {
	Client client.Client
	Pace   *Pace
	// Sums spaces out what costs much to sum up.
	Sums *Pace
}

// NewStatusWriter returns a StatusWriter that writes once in a TellPeriod.
func NewStatusWriter(c client.Client, clk clock.PassiveClock) *StatusWriter {
	return &StatusWriter{Client: c, Pace: &Pace{Clock: clk, Period: TellPeriod}, Sums: &Pace{Clock: clk}}
}

// Status writes the status, or says when to come back to do so.
func (t *StatusWriter) Status(ctx context.Context, before, after client.Object, pressing bool) (reconcile.Result, error) {
	if due := t.due(after, pressing); due > 0 {
		changed, err := patch.StatusChanged(before, after)
		if err != nil || !changed {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: due}, nil
	}
	version := after.GetResourceVersion()
	err := patch.Status(ctx, t.Client, before, after)
	if after.GetResourceVersion() != version {
		t.Pace.Took(after.GetUID())
	}
	return reconcile.Result{}, err
}

// Sum is what costs much to sum up: To completes a status, from so many Machines.
type Sum struct {
	Machines int
	To       func()
}

// Summed is Status with a sum. That is left out while the status can wait, and while the last one is young:
// then the status is written with the last sum, and comes back for the next.
func (t *StatusWriter) Summed(ctx context.Context, before, after client.Object, pressing bool, sum Sum) (reconcile.Result, error) {
	if due := t.due(after, pressing); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	young := t.Sums.Due(after.GetUID())
	if pressing || young <= 0 {
		young = 0
		sum.To()
		t.Sums.Rest(after.GetUID(), time.Duration(sum.Machines)*SumPeriod)
	}
	again, err := t.Status(ctx, before, after, pressing)
	if again.RequeueAfter == 0 {
		again.RequeueAfter = young
	}
	return again, err
}

// due is how long the status of an object can wait.
func (t *StatusWriter) due(object client.Object, pressing bool) time.Duration {
	if pressing {
		return 0
	}
	return t.Pace.Due(object.GetUID())
}

// Count is what a fleet's status counts.
type Count struct{ Desired, Replicas, Ready, Available, UpToDate int32 }

// Complete reports whether the fleet is as it should be.
func (c Count) Complete() bool {
	return c == Count{c.Desired, c.Desired, c.Desired, c.Desired, c.Desired}
}

// Pressing reports whether somebody waits for the step from one count to the next: the fleet is
// complete, or has grown, which decisions about further growth rest on.
func (c Count) Pressing(next Count) bool {
	return next.Replicas > c.Replicas || next.Complete() && next != c
}

// Turned reports whether a condition of one of the kinds came, went or changed its status.
func Turned(before, after conditions.Getter, kinds ...string) bool {
	for _, kind := range kinds {
		if status(before, kind) != status(after, kind) {
			return true
		}
	}
	return false
}

func status(of conditions.Getter, kind string) metav1.ConditionStatus {
	if condition := conditions.Get(of, kind); condition != nil {
		return condition.Status
	}
	return ""
}
