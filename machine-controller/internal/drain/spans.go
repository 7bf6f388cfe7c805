// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	corev1 "k8s.io/api/core/v1"

	"drover.io/runtime/tracing"
)

// passSpan is the span of a pass, with an event for each attempt to remove a Pod.
type passSpan struct {
	trace    tracing.Trace
	start    time.Time
	attempts []tracing.Event
	// removed means that a Pod was evicted or deleted, and refused is the first other outcome.
	removed bool
	refused string
}

func newPassSpan(ctx context.Context) passSpan {
	t := tracing.FromContext(ctx)
	if !t.On() {
		return passSpan{}
	}
	return passSpan{trace: t, start: time.Now()}
}

// add records an attempt, with its outcome as in the metric of evictions.
func (p *passSpan) add(pod *corev1.Pod, outcome string) {
	if !p.trace.On() {
		return
	}
	switch outcome {
	case evicted, deleted, gone:
		p.removed = true
	default:
		if p.refused == "" {
			p.refused = outcome
		}
	}
	p.attempts = append(p.attempts, tracing.Event{Name: "eviction", Time: time.Now(), Attributes: []attribute.KeyValue{
		tracing.PodNamespace.String(pod.Namespace), tracing.PodName.String(pod.Name), attribute.String("drover.eviction.outcome", outcome),
	}})
}

// emit emits a pass that has tried to remove a Pod. One that removed none is a failure, so that a drain that waits for hours
// emits it once.
func (p *passSpan) emit(node string) {
	if len(p.attempts) == 0 {
		return
	}
	span := tracing.Span{Name: "node.drain_pass", Start: p.start, End: time.Now(), Events: p.attempts, Attributes: []attribute.KeyValue{tracing.NodeName.String(node)}}
	if !p.removed {
		span.Error = p.refused
	}
	p.trace.Call(span)
}
