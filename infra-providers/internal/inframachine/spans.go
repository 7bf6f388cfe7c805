// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/runtime/tracing"
)

// Spans of an infrastructure machine, within those of its Machine. Calls of the cloud are part of the one they are made in.
const (
	createSpan = "inframachine.create"
	deleteSpan = "inframachine.delete"
)

// trace is the trace of the Machine that owns the object, with calls in the phase that the object is in.
func (r *Reconciler[M, C]) trace(s *state[M, C]) tracing.Trace {
	t := r.Tracer.Trace(s.owner)
	switch {
	case !t.On():
		return t
	case !s.machine.GetDeletionTimestamp().IsZero():
		return t.Within(deleteSpan)
	case provisioned(s.machine):
		return t.Within(tracing.CreateMachine)
	}
	return t.Within(createSpan)
}

func provisioned[M driver.Machine](machine M) bool {
	return ptr.Deref(machine.GetStatus().Initialization.Provisioned, false)
}

// emitPhases emits what ended between two versions of a machine that are stored. The object has when it began.
func (r *Reconciler[M, C]) emitPhases(before M, s *state[M, C]) {
	t := r.trace(s)
	if !t.On() {
		return
	}
	now := time.Now()
	attributes := []attribute.KeyValue{tracing.Cloud.String(r.Cloud.Name)}
	if id := s.machine.GetProviderID(); id != "" {
		attributes = append(attributes, tracing.ProviderID.String(id))
	}
	if !provisioned(before) && provisioned(s.machine) {
		t.Phase(tracing.Span{Name: createSpan, Parent: tracing.CreateMachine, Start: s.machine.GetCreationTimestamp().Time, End: now, Attributes: attributes})
	}
	if !machinestatus.IsRemoved(s.machine) || machinestatus.IsRemoved(before) {
		return
	}
	parent := tracing.DeleteMachine
	if s.owner.DeletionTimestamp.IsZero() {
		parent = tracing.CreateMachine // it was deleted by hand
	}
	deleted := s.machine.GetDeletionTimestamp().Time
	if !provisioned(s.machine) {
		t.Phase(tracing.Span{Name: createSpan, Parent: tracing.CreateMachine, Start: s.machine.GetCreationTimestamp().Time, End: deleted, Error: "deleted", Attributes: attributes})
	}
	t.Phase(tracing.Span{Name: deleteSpan, Parent: parent, Start: deleted, End: now, Attributes: attributes})
}
