// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracingtest records the spans that a test has emitted.
package tracingtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"drover.io/runtime/tracing"
)

// Recorder has the spans of a Tracer.
type Recorder struct {
	exporter *tracetest.InMemoryExporter
}

// New returns a Tracer that traces every Machine, and the recorder of its spans.
func New(t testing.TB) (*tracing.Tracer, *Recorder) {
	t.Helper()
	r := &Recorder{exporter: tracetest.NewInMemoryExporter()}
	tracer := tracing.New(tracing.PerMillion, sdktrace.WithSyncer(r.exporter))
	t.Cleanup(func() {
		if err := tracer.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return tracer, r
}

// Spans are those that were emitted, in that order.
func (r *Recorder) Spans() tracetest.SpanStubs { return r.exporter.GetSpans() }

// Reset forgets the spans.
func (r *Recorder) Reset() { r.exporter.Reset() }

// Lines describe the spans, in the order of their start: name, parent, duration, error, attributes beside those of each
// span, and events.
func (r *Recorder) Lines() []string {
	spans := r.Spans()
	names := map[string]string{}
	for _, span := range spans {
		names[span.SpanContext.SpanID().String()] = span.Name
	}
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), b.EndTime.Compare(a.EndTime), cmp.Compare(a.Name, b.Name))
	})
	var lines []string
	for _, span := range spans {
		line := []string{span.Name}
		if span.Parent.IsValid() {
			line = append(line, "of "+cmp.Or(names[span.Parent.SpanID().String()], "another"))
		}
		line = append(line, span.EndTime.Sub(span.StartTime).String())
		for _, a := range span.Attributes {
			if !strings.HasPrefix(string(a.Key), "drover.machine.") && a.Key != "drover.cluster.name" {
				line = append(line, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
			}
		}
		for _, e := range span.Events {
			line = append(line, "| "+e.Name)
			for _, a := range e.Attributes {
				line = append(line, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines
}
