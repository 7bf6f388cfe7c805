// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/requesterror"
)

// Phases that more than one manager names. The first is the root of each trace.
const (
	CreateMachine = "machine.create"
	DeleteMachine = "machine.delete"
)

// Attributes of spans, beside those of OpenTelemetry's semantic conventions.
const (
	machineUID       = attribute.Key("drover.machine.uid")
	machineName      = attribute.Key("drover.machine.name")
	machineNamespace = attribute.Key("drover.machine.namespace")
	clusterName      = attribute.Key("drover.cluster.name")
	errorType        = attribute.Key("error.type")

	// Cloud is the name of the provider, as in the label of metrics.
	Cloud = attribute.Key("drover.cloud")
	// ProviderID is the providerID of the instance.
	ProviderID = attribute.Key("drover.provider_id")
	// WaitReason and WaitMessage are those of the condition that named what was awaited last.
	WaitReason  = attribute.Key("drover.wait.reason")
	WaitMessage = attribute.Key("drover.wait.message")
	// NodeName, PodName and PodNamespace are of the workload cluster.
	NodeName     = attribute.Key("k8s.node.name")
	PodName      = attribute.Key("k8s.pod.name")
	PodNamespace = attribute.Key("k8s.namespace.name")
)

// Trace is the trace of one Machine, as one manager emits into it. The zero Trace emits nothing.
type Trace struct {
	tracer *Tracer
	id     trace.TraceID
	// uid, namespace, name and cluster of the Machine are attributes of each span.
	uid                      types.UID
	namespace, name, cluster string
	// parent is the phase that calls are part of.
	parent string
}

// On reports whether something is emitted. Callers ask before they build a [Span].
func (t Trace) On() bool { return t.tracer != nil }

// Within returns the trace with calls that are part of a phase.
func (t Trace) Within(phase string) Trace {
	t.parent = phase
	return t
}

// Span is something that has ended.
type Span struct {
	// Name is one of few.
	Name string
	// Parent is the name of the phase that the span is part of. Empty is the one of [Trace.Within], and none for the root.
	Parent     string
	Start, End time.Time
	// Error is a word for the kind of the failure; empty is none. Texts of errors do not belong here: they may quote anything.
	Error      string
	Attributes []attribute.KeyValue
	Events     []Event
}

// Event is what happened at a time within a span.
type Event struct {
	Name       string
	Time       time.Time
	Attributes []attribute.KeyValue
}

// Phase emits a part of a Machine's life, which lasts longer than a reconcile. A phase of the same name that is emitted
// again is the same span.
func (t Trace) Phase(s Span) {
	if t.On() {
		t.emit(trace.SpanKindInternal, phaseID(t.id, s.Name), s)
	}
}

// Call emits a call of a cloud or of a workload cluster. One that fails as the one before did is left out, and so are those
// of a Machine that has very many.
func (t Trace) Call(s Span) {
	if !t.On() {
		return
	}
	if s.Parent == "" {
		s.Parent = t.parent
	}
	if t.tracer.admit(call{t.id, s.Parent, s.Name}, s.Error) {
		t.emit(trace.SpanKindClient, callID(), s)
	}
}

func (t Trace) emit(kind trace.SpanKind, id trace.SpanID, s Span) {
	ctx := context.WithValue(context.Background(), idsKey{}, ids{t.id, id})
	if s.Parent != "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: t.id, SpanID: phaseID(t.id, s.Parent), TraceFlags: trace.FlagsSampled, Remote: true,
		}))
	}
	if s.End.Before(s.Start) { // the clock of the API server is another one
		s.Start = s.End
	}
	_, span := t.tracer.tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Start), trace.WithSpanKind(kind),
		trace.WithAttributes(t.attributes()...), trace.WithAttributes(s.Attributes...))
	for _, e := range s.Events {
		span.AddEvent(e.Name, trace.WithTimestamp(e.Time), trace.WithAttributes(bounded(e.Attributes)...))
	}
	if s.Error != "" {
		span.SetAttributes(errorType.String(s.Error))
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(s.End))
}

// bounded returns attributes of an event with values as long as those of spans, which the SDK bounds.
func bounded(attributes []attribute.KeyValue) []attribute.KeyValue {
	attributes = slices.Clone(attributes) // several spans may have the same
	for i, each := range attributes {
		if each.Value.Type() == attribute.STRING {
			attributes[i].Value = attribute.StringValue(requesterror.TruncateTo(each.Value.AsString(), maxText))
		}
	}
	return attributes
}

// attributes are those of each span.
func (t Trace) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		machineUID.String(string(t.uid)), machineNamespace.String(t.namespace), machineName.String(t.name), clusterName.String(t.cluster),
	}
}

// ErrorType is the kind of an error of an API server: the reason that it answers, such as Forbidden.
func ErrorType(err error) string {
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
		return ""
	case reason != "":
		return string(reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

// contextKey is the key of the Trace in a context.
type contextKey struct{}

// NewContext returns a context with the trace in which calls are emitted; the same context where nothing is.
func NewContext(ctx context.Context, t Trace) context.Context {
	if !t.On() {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, t)
}

// FromContext returns the trace of a context; the zero Trace without one.
func FromContext(ctx context.Context) Trace {
	t, _ := ctx.Value(contextKey{}).(Trace)
	return t
}
