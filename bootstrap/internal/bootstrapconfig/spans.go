// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"time"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/tracing"
)

// createSpan lasts from the creation of a BootstrapConfig until its bootstrap data exists.
const createSpan = "bootstrapconfig.create"

// trace is the trace of the Machine that owns the BootstrapConfig, with calls in the phase that it is in.
func (r *Reconciler) trace(s *state) tracing.Trace {
	t := r.Tracer.Trace(s.machine)
	switch {
	case !t.On():
		return t
	case !s.config.DeletionTimestamp.IsZero() && !s.machine.DeletionTimestamp.IsZero():
		return t.Within(tracing.DeleteMachine)
	case s.published():
		return t.Within(tracing.CreateMachine)
	}
	return t.Within(createSpan)
}

// emitCreation emits the creation of bootstrap data that was just published. The object has when it began.
func (r *Reconciler) emitCreation(s *state, before *bootstrapv1.BootstrapConfigStatus) {
	t := r.Tracer.Trace(s.machine)
	if t.On() && !created(before) && s.published() {
		t.Phase(tracing.Span{Name: createSpan, Parent: tracing.CreateMachine, Start: s.config.CreationTimestamp.Time, End: r.Clock.Now()})
	}
}

// emitCall emits a call for the Machine of the context.
func emitCall(ctx context.Context, name string, start, end time.Time, err error) {
	t := tracing.FromContext(ctx)
	if !t.On() {
		return
	}
	kind := tracing.ErrorType(err)
	if unmet, is := errors.AsType[*waiting](err); is {
		kind = unmet.reason
	}
	t.Call(tracing.Span{Name: name, Start: start, End: end, Error: kind})
}
