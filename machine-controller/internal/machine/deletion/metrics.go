// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/runtime/expiring"
	"drover.io/runtime/metric"
	"drover.io/runtime/tracing"
)

// stepNames are those of the steps of a Deleter, in order.
var stepNames = []string{"pre_drain_hooks", "drain", "volumes", "pre_terminate_hooks", "instance", "bootstrap", "node"}

// stepReasons are the reasons of the Deleting condition while each step waits.
var stepReasons = []string{
	clusterv1.MachineDeletingWaitingForPreDrainHookReason, clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason,
	clusterv1.MachineDeletingWaitingForPreTerminateHookReason, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason,
	clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, clusterv1.MachineDeletingDeletingNodeReason,
}

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

// position is the step that a deletion is at.
type position struct {
	step int
	// since is when the step began; zero where an earlier process began it.
	since time.Time
	// began is when the step began, for its span: as far as the objects show that where an earlier process began it.
	began time.Time
	// unknown means that an earlier process began the deletion, and which step it was at is not known.
	unknown bool
}

// start returns where the deletion of a Machine is.
func (w *stopwatch) start(t tracing.Trace, s *State) position {
	if p, found := w.at.Get(s.Machine.UID); found {
		return p
	}
	if !conditions.IsTrue(s.Machine, clusterv1.MachineDeletingCondition) {
		now := w.clock.Now()
		return position{since: now, began: now}
	}
	i := slices.Index(stepReasons, conditions.GetReason(s.Machine, clusterv1.MachineDeletingCondition))
	if i < 0 {
		return position{unknown: true}
	}
	return resumed(t, i, s)
}

// resumed is the position of a deletion at a step that an earlier process began.
func resumed(t tracing.Trace, step int, s *State) position {
	p := position{step: step}
	if t.On() {
		p.began = s.began(step)
	}
	return p
}

// passed records that the deletion is beyond a step.
func (w *stopwatch) passed(t tracing.Trace, p *position, step int, s *State) {
	if p.unknown || step < p.step {
		return
	}
	now := w.clock.Now()
	if !p.since.IsZero() {
		stepSeconds.Observe(now.Sub(p.since).Seconds(), stepNames[step])
	}
	if t.On() {
		emitStep(t, step, p.began, now, s)
	}
	*p = position{step: step + 1, since: now, began: now}
}

// stop records where the deletion waits. Which step an earlier process was at is known once one waits.
func (w *stopwatch) stop(t tracing.Trace, s *State, p position, step int) {
	switch {
	case step == len(stepNames):
		w.at.SetUntil(s.Machine.UID, position{step: step}, w.clock.Now().Add(doneFor))
	case p.unknown:
		w.at.Set(s.Machine.UID, resumed(t, step, s))
	default:
		w.at.Set(s.Machine.UID, p)
	}
}
