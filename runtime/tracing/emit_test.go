// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

// TestSmallerRateTracesSomeOfTheSame has managers whose rates differ, as while one is changed after another: a Machine that is
// traced by the smaller rate is traced by the greater one.
func TestSmallerRateTracesSomeOfTheSame(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{7})
	rates := []int{0, 1, 1000, 250_000, 999_999, tracing.PerMillion}
	var tracers []*tracing.Tracer
	for _, rate := range rates {
		tracers = append(tracers, tracing.New(rate))
	}
	for range 5000 {
		id, err := uuid.NewRandomFromReader(random)
		if err != nil {
			t.Fatal(err)
		}
		m := machine(types.UID(id.String()))
		for i := 1; i < len(tracers); i++ {
			if tracers[i-1].Trace(m).On() && !tracers[i].Trace(m).On() {
				t.Fatalf("%s is traced at %d and not at %d of a million", id, rates[i-1], rates[i])
			}
		}
		if tracers[0].Trace(m).On() || !tracers[len(tracers)-1].Trace(m).On() {
			t.Fatalf("%s is traced at 0, or not at a million", id)
		}
	}
}

// TestUIDsOfAnyTextHaveATrace has what the API server permits as a UID: each has an ID of its own that is valid.
func TestUIDsOfAnyTextHaveATrace(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	seen := map[trace.TraceID]string{}
	for _, uid := range []string{
		"x", strings.Repeat("long", 100), "00000000-0000-0000-0000-000000000000", "0B9F3C4E-5A6D-4E7F-8A9B-0C1D2E3F4A5B-", "{not-a-uuid}", "\x00", "üid",
	} {
		tracer.Trace(machine(types.UID(uid))).Phase(span("x"))
		spans := recorded.Spans()
		id := spans[len(spans)-1].SpanContext.TraceID()
		if other, twice := seen[id]; twice || !id.IsValid() {
			t.Errorf("%q has the trace of %q: %s", uid, other, id)
		}
		seen[id] = uid
	}
	// The same UID in capital letters is the same Machine.
	tracer.Trace(machine(uid)).Phase(span("x"))
	tracer.Trace(machine(types.UID(strings.ToUpper(uid)))).Phase(span("x"))
	spans := recorded.Spans()
	if a, b := spans[len(spans)-2], spans[len(spans)-1]; a.SpanContext.SpanID() != b.SpanContext.SpanID() {
		t.Errorf("the spans are %s and %s", a.SpanContext.SpanID(), b.SpanContext.SpanID())
	}
}

// TestParentOfACall is the one of its span, or else that of the trace, which another phase does not change.
func TestParentOfACall(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	m := tracer.Trace(machine(uid))
	for _, phase := range []string{tracing.CreateMachine, tracing.DeleteMachine, "own"} {
		m.Phase(span(phase)) // the parents must be known by name
	}
	within := m.Within(tracing.CreateMachine)
	other := within.Within(tracing.DeleteMachine)
	own := span("call")
	own.Parent = "own"
	within.Call(span("call"))
	other.Call(span("call"))
	other.Call(own)
	m.Call(span("call"))
	want := []string{"call 1s", "call of machine.create 1s", "call of machine.delete 1s", "call of own 1s"}
	got := slices.DeleteFunc(recorded.Lines(), func(line string) bool { return !strings.HasPrefix(line, "call") })
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// TestCallsHaveIDsOfTheirOwn, whatever their names are, and whoever emits them at the same time.
func TestCallsHaveIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			m := tracer.Trace(machine(types.UID(fmt.Sprint("m-", i))))
			for range 50 {
				m.Call(span("cloud.get"))
			}
		})
	}
	group.Wait()
	seen := map[trace.SpanID]bool{}
	for _, each := range recorded.Spans() {
		if id := each.SpanContext.SpanID(); seen[id] || !id.IsValid() {
			t.Fatalf("the ID %s is not valid, or of two calls", id)
		} else {
			seen[id] = true
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d calls were emitted", len(seen))
	}
}

// TestFailuresAreToldApart by the Machine, the phase and the call: the same error of another one is emitted.
func TestFailuresAreToldApart(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	failed := span("cloud.get")
	failed.Error = "timeout"
	for range 2 {
		for _, m := range []types.UID{uid, "another"} {
			for _, phase := range []string{tracing.CreateMachine, tracing.DeleteMachine} {
				for _, name := range []string{"cloud.get", "cloud.list"} {
					failed.Name = name
					tracer.Trace(machine(m)).Within(phase).Call(failed)
				}
			}
		}
	}
	if n := len(recorded.Spans()); n != 8 {
		t.Errorf("%d spans, want one for each of 8 calls", n)
	}
}

// TestSpansOfACallerAreNotChanged has attributes that several spans share, with a text that is too long.
func TestSpansOfACallerAreNotChanged(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	long := strings.Repeat("x", 1000)
	shared := []attribute.KeyValue{tracing.PodName.String(long), tracing.NodeName.String("n")}
	s := span("x")
	s.Attributes, s.Events = shared, []tracing.Event{{Name: "e", Time: epoch, Attributes: shared}}
	tracer.Trace(machine(uid)).Phase(s)
	if got := shared[0].Value.AsString(); got != long {
		t.Errorf("the attribute of the caller has %d characters", len(got))
	}
	if got := recorded.Spans()[0].Events[0].Attributes[0].Value.AsString(); len(got) > 260 {
		t.Errorf("that of the event has %d characters", len(got))
	}
}

// TestAfterShutdownNothingIsEmitted, and another end is no error.
func TestAfterShutdownNothingIsEmitted(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	tracer.Trace(machine(uid)).Phase(span("x"))
	before := len(recorded.Spans())
	for range 2 {
		if err := tracer.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	m := tracer.Trace(machine(uid))
	m.Phase(span("y"))
	m.Call(span("z"))
	if before != 1 || len(recorded.Spans()) > 1 {
		t.Errorf("%d spans before, %d after", before, len(recorded.Spans()))
	}
	var off *tracing.Tracer
	if err := off.Shutdown(t.Context()); err != nil || off.Trace(machine(uid)).On() {
		t.Errorf("a Tracer that is off: error %v", err)
	}
}
