// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

const uid = "0b9f3c4e-5a6d-4e7f-8a9b-0c1d2e3f4a5b"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func machine(uid types.UID) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: "m"}}
	m.Spec.ClusterName = "c"
	return m
}

func span(name string) tracing.Span {
	return tracing.Span{Name: name, Start: epoch, End: epoch.Add(time.Second)}
}

func TestTraceIDIsTheUID(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	tracer.Trace(machine(uid)).Phase(span(tracing.CreateMachine))
	tracer.Trace(machine("no-uuid")).Phase(span(tracing.CreateMachine))
	tracer.Trace(machine("no-uuid")).Phase(span(tracing.DeleteMachine))
	spans := recorded.Spans()
	if got := spans[0].SpanContext.TraceID().String(); got != strings.ReplaceAll(uid, "-", "") {
		t.Errorf("the trace ID is %s", got)
	}
	if id := spans[1].SpanContext.TraceID(); !id.IsValid() || id != spans[2].SpanContext.TraceID() || id == spans[0].SpanContext.TraceID() {
		t.Errorf("the trace IDs of a UID that is no UUID are %s and %s", id, spans[2].SpanContext.TraceID())
	}
}

// TestManagersEmitIntoOneTrace emits by two Tracers that share nothing.
func TestManagersEmitIntoOneTrace(t *testing.T) {
	t.Parallel()
	core, ofCore := tracingtest.New(t)
	provider, ofProvider := tracingtest.New(t)
	core.Trace(machine(uid)).Phase(span(tracing.CreateMachine))
	core.Trace(machine(uid)).Phase(span(tracing.CreateMachine)) // again, after a crash
	provider.Trace(machine(uid)).Within(tracing.CreateMachine).Call(span("cloud.create"))
	root, again, child := ofCore.Spans()[0], ofCore.Spans()[1], ofProvider.Spans()[0]
	if root.Parent.IsValid() || root.SpanContext.SpanID() != again.SpanContext.SpanID() {
		t.Errorf("the root has the parent %s and the IDs %s and %s", root.Parent.SpanID(), root.SpanContext.SpanID(), again.SpanContext.SpanID())
	}
	if child.SpanContext.TraceID() != root.SpanContext.TraceID() || child.Parent.SpanID() != root.SpanContext.SpanID() || !child.Parent.IsRemote() {
		t.Errorf("the child has the parent %v, and the root is %v", child.Parent, root.SpanContext)
	}
	if child.SpanKind != trace.SpanKindClient || root.SpanKind != trace.SpanKindInternal {
		t.Errorf("the kinds are %s and %s", child.SpanKind, root.SpanKind)
	}
	want := []attribute.KeyValue{
		attribute.String("drover.machine.uid", uid), attribute.String("drover.machine.namespace", "ns"),
		attribute.String("drover.machine.name", "m"), attribute.String("drover.cluster.name", "c"),
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(child.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// TestSamplingIsByMachine traces random UIDs, whose fixed bits must not matter.
func TestSamplingIsByMachine(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	const machines = 20_000
	for _, rate := range []int{0, 10_000, 100_000, 500_000, 900_000, tracing.PerMillion} {
		one, two, sampled := tracing.New(rate), tracing.New(rate), 0
		for range machines {
			id, err := uuid.NewRandomFromReader(random)
			if err != nil {
				t.Fatal(err)
			}
			m := machine(types.UID(id.String()))
			on := one.Trace(m).On()
			if on != two.Trace(m).On() {
				t.Fatalf("two managers decide otherwise about %s", id)
			}
			if on {
				sampled++
			}
		}
		want := machines * rate / tracing.PerMillion
		if slack := machines / 100 * min(rate, 1); sampled < want-slack || sampled > want+slack {
			t.Errorf("at a rate of %d, %d of %d are sampled", rate, sampled, machines)
		}
	}
}

func TestNoTraceWithoutAMachine(t *testing.T) {
	t.Parallel()
	tracer, _ := tracingtest.New(t)
	if tracer.Trace(nil).On() || tracer.Trace(machine("")).On() {
		t.Error("there is a trace of no Machine")
	}
}

func TestCallsOfAMachineAreBounded(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	for range 1000 {
		tracer.Trace(machine(uid)).Call(span("cloud.delete"))
	}
	if n := len(recorded.Spans()); n != 200 {
		t.Errorf("%d calls are emitted", n)
	}
	tracer.Trace(machine("another")).Call(span("cloud.delete"))
	tracer.Trace(machine(uid)).Phase(span(tracing.DeleteMachine))
	if n := len(recorded.Spans()); n != 202 {
		t.Errorf("%d spans are emitted with those of another Machine and a phase", n)
	}
}

func TestSameFailureIsEmittedOnce(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	m := tracer.Trace(machine(uid))
	for _, failure := range []string{"quota_exceeded", "quota_exceeded", "timeout", "", "timeout", "timeout"} {
		s := span("cloud.create")
		s.Error = failure
		m.Call(s)
	}
	var got []string
	for _, each := range recorded.Spans() {
		got = append(got, fmt.Sprint(each.Status.Code == codes.Error, " ", each.Attributes[len(each.Attributes)-1].Value.String()))
	}
	if diff := cmp.Diff([]string{"true quota_exceeded", "true timeout", "false c", "true timeout"}, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	long := []attribute.KeyValue{tracing.WaitMessage.String(strings.Repeat("é", 1000))}
	s := span("x")
	s.Attributes, s.Events = long, []tracing.Event{{Name: "e", Time: epoch, Attributes: []attribute.KeyValue{tracing.PodName.String(strings.Repeat("é", 1000))}}}
	tracer.Trace(machine(uid)).Phase(s)
	got := recorded.Spans()[0]
	for _, each := range append(got.Attributes, got.Events[0].Attributes...) {
		if n := len([]rune(each.Value.AsString())); n > 256 {
			t.Errorf("%s has %d characters", each.Key, n)
		}
	}
}

// TestClocksMayDiffer emits what began after its end, by the clock of the API server.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	tracer.Trace(machine(uid)).Phase(tracing.Span{Name: "x", Start: epoch.Add(time.Second), End: epoch})
	if got := recorded.Spans()[0]; !got.StartTime.Equal(epoch) || !got.EndTime.Equal(epoch) {
		t.Errorf("it lasts from %s to %s", got.StartTime, got.EndTime)
	}
}

func TestErrorType(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "nodes"}
	for want, err := range map[string]error{
		"": nil, "NotFound": apierrors.NewNotFound(resource, "n"), "Forbidden": fmt.Errorf("deleting: %w", apierrors.NewForbidden(resource, "n", nil)),
		"timeout": fmt.Errorf("deleting: %w", context.DeadlineExceeded), "error": errors.New("token=secret"),
	} {
		if got := tracing.ErrorType(err); got != want {
			t.Errorf("ErrorType(%v) is %q, want %q", err, got, want)
		}
	}
}

func TestContextHasTheTrace(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	ctx := tracing.NewContext(t.Context(), tracer.Trace(machine(uid)).Within(tracing.DeleteMachine))
	tracer.Trace(machine(uid)).Phase(span(tracing.DeleteMachine))
	tracing.FromContext(ctx).Call(span("node.delete"))
	if diff := cmp.Diff([]string{"machine.delete 1s", "node.delete of machine.delete 1s"}, recorded.Lines()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if tracing.FromContext(t.Context()).On() || tracing.NewContext(t.Context(), tracing.Trace{}) != t.Context() {
		t.Error("a context without a trace has one")
	}
}

// off is what a reconcile does about spans where tracing is off.
func off(ctx context.Context, m *clusterv1.Machine) {
	var tracer *tracing.Tracer
	ctx = tracing.NewContext(ctx, tracer.Trace(m).Within(tracing.CreateMachine))
	if t := tracing.FromContext(ctx); t.On() {
		t.Call(tracing.Span{Name: "cloud.create", Attributes: []attribute.KeyValue{tracing.Cloud.String("sim")}})
	}
	tracer.Trace(m).Phase(tracing.Span{Name: tracing.CreateMachine, Start: epoch, End: epoch})
}

func TestOffAllocatesNothing(t *testing.T) {
	ctx, m := t.Context(), machine(uid)
	if n := testing.AllocsPerRun(100, func() { off(ctx, m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	ctx, m := b.Context(), machine(uid)
	b.ReportAllocs()
	for b.Loop() {
		off(ctx, m)
	}
}

// BenchmarkPhase emits into a Tracer without an exporter.
func BenchmarkPhase(b *testing.B) {
	tracer, m := tracing.New(tracing.PerMillion), machine(uid)
	b.ReportAllocs()
	for b.Loop() {
		tracer.Trace(m).Phase(span(tracing.CreateMachine))
	}
}
