// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/runtime/expiring"
	"drover.io/runtime/metric"
)

// stepNames are those of the steps of a Deleter, in order.
var stepNames = []string{"pre_drain_hooks", "drain", "volumes", "pre_terminate_hooks", "instance", "bootstrap", "node"}

var stepSeconds = metric.NewHistogram(metric.Options{
	Name: "machine_controller_deletion_step_duration_seconds", Stability: metric.Alpha,
	Help:    "Seconds that each step of a Machine's deletion took. A step that began under an earlier process is not counted.",
	Labels:  []metric.Label{metric.Fixed("step", stepNames...)},
	Buckets: []float64{0.1, 1, 5, 15, 60, 180, 600, 1800, 3600, 14400},
})

// doneFor is how long a deletion that is done is remembered: the Machine may be reconciled until its cache shows that it is gone.
const doneFor = 10 * time.Minute

// stopwatch measures the steps of deletions.
type stopwatch struct {
	clock clock.PassiveClock
	at    expiring.Map[types.UID, position]
}

func newStopwatch(c clock.PassiveClock) *stopwatch {
	return &stopwatch{clock: c, at: expiring.Map[types.UID, position]{Clock: c}}
}

// position is the step that a deletion is at, and since when; the time is zero where an earlier process began it.
type position struct {
	step  int
	since time.Time
}

// start returns where the deletion of a Machine is.
func (w *stopwatch) start(m *clusterv1.Machine) (p position, resumed bool) {
	if p, found := w.at.Get(m.UID); found {
		return p, false
	}
	if conditions.IsTrue(m, clusterv1.MachineDeletingCondition) {
		return position{}, true
	}
	return position{since: w.clock.Now()}, false
}

// passed records that the deletion is beyond a step.
func (w *stopwatch) passed(p *position, step int) {
	if step < p.step {
		return
	}
	now := w.clock.Now()
	if !p.since.IsZero() {
		stepSeconds.Observe(now.Sub(p.since).Seconds(), stepNames[step])
	}
	*p = position{step + 1, now}
}

// stop records where the deletion waits. Which step an earlier process was at is known once one waits.
func (w *stopwatch) stop(m *clusterv1.Machine, p position, step int, resumed bool) {
	switch {
	case step == len(stepNames):
		w.at.SetUntil(m.UID, position{step: step}, w.clock.Now().Add(doneFor))
	case resumed:
		w.at.Set(m.UID, position{step: step})
	default:
		w.at.Set(m.UID, p)
	}
}
