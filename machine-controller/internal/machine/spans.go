// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"drover.io/runtime/tracing"
)

// stages are the phases of a Machine before it runs, each with its span and the condition that has what is awaited.
//
//	machine.create ───────────────────────────────────────────────────▶ Running
//	machine.create.bootstrap_data ─▶ machine.create.instance ─▶ machine.create.node ─▶ machine.create.ready ─▶ Ready
var stages = []struct {
	phase           clusterv1.MachinePhase
	span, condition string
}{
	{clusterv1.MachinePhasePending, "machine.create.bootstrap_data", clusterv1.MachineBootstrapConfigReadyCondition},
	{clusterv1.MachinePhaseProvisioning, "machine.create.instance", clusterv1.MachineInfrastructureReadyCondition},
	{clusterv1.MachinePhaseProvisioned, "machine.create.node", clusterv1.MachineNodeHealthyCondition},
}

// readySpan lasts from the join of the Node until the Machine is ready for the first time.
const readySpan = "machine.create.ready"

// interrupted is the error of spans of a Machine that was deleted before it ran.
const interrupted = "deleted"

// stageOf is the position of a phase in stages: that of the first for a Machine without one, len(stages) for one that runs,
// and -1 for any other.
func stageOf(phase string) int {
	switch phase {
	case "":
		return 0
	case string(clusterv1.MachinePhaseRunning):
		return len(stages)
	}
	for i := range stages {
		if string(stages[i].phase) == phase {
			return i
		}
	}
	return -1
}

// emitPhases emits the phases that a Machine has left with the write of its status. Its status has when the last one
// began, so that a restart of the manager in between changes nothing. With firstReady it is known to be ready for the first
// time.
func (r *Reconciler) emitPhases(before *clusterv1.Machine, s *state, firstReady bool) {
	t := r.Tracer.Trace(s.machine)
	if !t.On() {
		return
	}
	after, now := s.machine, r.Clock.Now()
	from, to := stageOf(before.Status.Phase), stageOf(after.Status.Phase)
	switch {
	case s.deleting():
		emitInterrupted(t, before)
	case from >= 0 && to > from:
		start := phaseStart(before)
		for i := from; i < to; i++ {
			end := now
			if i+1 < to { // it went through several phases since the last write
				end = s.stageEnd(i, start, now)
			}
			emitStage(t, i, before, start, end, "")
			start = end
		}
		if to == len(stages) {
			emitCreation(t, after, now, "")
		}
	}
	if firstReady || isFirstReady(before, after) {
		emitReady(t, before, after, now)
	}
}

// emitDeletion emits the deletion of a Machine whose finalizer was removed.
func (r *Reconciler) emitDeletion(before *clusterv1.Machine, s *state) {
	t := r.Tracer.Trace(s.machine)
	if !t.On() || !controllerutil.ContainsFinalizer(before, clusterv1.MachineFinalizer) { // other finalizers may keep it
		return
	}
	emitInterrupted(t, before)
	t.Phase(tracing.Span{
		Name: tracing.DeleteMachine, Parent: tracing.CreateMachine, Start: before.DeletionTimestamp.Time, End: r.Clock.Now(),
		Attributes: identity(before),
	})
}

// emitInterrupted emits the creation of a Machine that was deleted before it ran, and the phase that it was in. Once its
// status shows the deletion it was done before.
func emitInterrupted(t tracing.Trace, before *clusterv1.Machine) {
	if i, deleted := stageOf(before.Status.Phase), before.DeletionTimestamp; i >= 0 && i < len(stages) && deleted != nil {
		emitStage(t, i, before, phaseStart(before), deleted.Time, interrupted)
		emitCreation(t, before, deleted.Time, interrupted)
	}
}

func emitCreation(t tracing.Trace, m *clusterv1.Machine, end time.Time, failure string) {
	t.Phase(tracing.Span{Name: tracing.CreateMachine, Start: m.CreationTimestamp.Time, End: end, Error: failure, Attributes: identity(m)})
}

func emitStage(t tracing.Trace, i int, before *clusterv1.Machine, start, end time.Time, failure string) {
	t.Phase(tracing.Span{
		Name: stages[i].span, Parent: tracing.CreateMachine, Start: start, End: end, Error: failure,
		Attributes: awaited(conditions.Get(before, stages[i].condition)),
	})
}

// isFirstReady reports whether a Machine whose Node joined under an earlier process is ready for the first time: while it
// runs, lastUpdated is when the Node joined, and one that has been ready before became unready after that.
func isFirstReady(before, after *clusterv1.Machine) bool {
	if after.Status.Phase != string(clusterv1.MachinePhaseRunning) || !conditions.IsTrue(after, clusterv1.MachineReadyCondition) {
		return false
	}
	was := conditions.Get(before, clusterv1.MachineReadyCondition)
	return was == nil || was.Status != metav1.ConditionTrue && !was.LastTransitionTime.After(after.Status.LastUpdated.Time)
}

// emitReady emits how long the Node needed after its join.
func emitReady(t tracing.Trace, before, after *clusterv1.Machine, now time.Time) {
	t.Phase(tracing.Span{
		Name: readySpan, Parent: tracing.CreateMachine, Start: after.Status.LastUpdated.Time, End: now,
		Attributes: awaited(conditions.Get(before, clusterv1.MachineNodeHealthyCondition)),
	})
}

// emitAssignment emits the write of a providerID to a Node.
func emitAssignment(ctx context.Context, node string, start time.Time, err error) {
	if t := tracing.FromContext(ctx); t.On() {
		t.Call(tracing.Span{
			Name: "node.assign_provider_id", Start: start, End: time.Now(), Error: tracing.ErrorType(err), Attributes: []attribute.KeyValue{tracing.NodeName.String(node)},
		})
	}
}

// phaseStart is when the phase of a Machine began.
func phaseStart(m *clusterv1.Machine) time.Time {
	if stageOf(m.Status.Phase) == 0 || m.Status.LastUpdated.IsZero() {
		return m.CreationTimestamp.Time
	}
	return m.Status.LastUpdated.Time
}

// stageEnd is when a stage ended that no write of the status shows: since when the object that it awaited is ready.
func (s *state) stageEnd(i int, start, now time.Time) time.Time {
	var ready *metav1.Condition
	switch {
	case i == 0 && s.bootstrap.object != nil:
		ready = s.bootstrap.object.Ready()
	case i == 1 && s.infra.object != nil:
		ready = s.infra.object.Ready()
	}
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.LastTransitionTime.Time.After(now) {
		return now
	}
	return slices.MaxFunc([]time.Time{ready.LastTransitionTime.Time, start}, time.Time.Compare)
}

// awaited are the attributes for what a condition named last.
func awaited(condition *metav1.Condition) []attribute.KeyValue {
	if condition == nil || condition.Status == metav1.ConditionTrue {
		return nil
	}
	return []attribute.KeyValue{tracing.WaitReason.String(condition.Reason), tracing.WaitMessage.String(condition.Message)}
}

// identity are the attributes for the instance and the Node of a Machine, as far as they exist.
func identity(m *clusterv1.Machine) []attribute.KeyValue {
	var all []attribute.KeyValue
	if m.Spec.ProviderID != "" {
		all = append(all, tracing.ProviderID.String(m.Spec.ProviderID))
	}
	if m.Status.NodeRef.IsDefined() {
		all = append(all, tracing.NodeName.String(m.Status.NodeRef.Name))
	}
	return all
}
