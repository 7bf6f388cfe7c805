// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing emits OpenTelemetry spans about the life of Machines. All managers emit into one trace for each Machine:
// its ID is the Machine's UID, so that they need to exchange nothing. A span is emitted once it has ended, with the times
// that the objects have: a manager that is restarted in between emits it all the same.
//
// A nil [Tracer] is off. It and the zero [Trace] do nothing and allocate nothing. What a Machine's phases are is known to
// the managers, which emit them; package manager makes the Tracer from the flags.
package tracing

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/expiring"
)

// scope names what emits the spans.
const scope = "drover.io/runtime/tracing"

const (
	// maxText is how many bytes the value of an attribute has at most.
	maxText = 256
	// maxCalls is how many spans of calls one Machine has in callPeriod at most: a host, or a cloud, may cause any number.
	maxCalls   = 200
	callPeriod = time.Hour
	// maxMachines is how many Machines are remembered to bound their calls.
	maxMachines = 10_000
)

// PerMillion is the sampling rate by which every Machine is traced.
const PerMillion = 1_000_000

// Tracer emits the spans of one manager. It is safe for concurrent use and never waits for the receiver: spans that the
// queue has no room for are dropped.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	// threshold is the least random part of the trace IDs that are sampled.
	threshold uint64
	// failures are the last errors of calls: the same one again is not emitted.
	failures expiring.Map[call, string]
	// calls count the spans of calls of each Machine.
	calls expiring.Map[trace.TraceID, *atomic.Int64]
}

// call identifies the calls that do the same for a Machine.
type call struct {
	trace        trace.TraceID
	parent, name string
}

// New returns a Tracer that traces so many of a million Machines. The options are how spans are exported, and for what
// resource.
func New(samplingRatePerMillion int, options ...sdktrace.TracerProviderOption) *Tracer {
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 || limits.AttributeValueLengthLimit > maxText {
		limits.AttributeValueLengthLimit = maxText
	}
	provider := sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // it is decided by Tracer.Trace
		sdktrace.WithIDGenerator(idGenerator{}),
		sdktrace.WithRawSpanLimits(limits),
	}, options...)...)
	return &Tracer{
		provider: provider, tracer: provider.Tracer(scope), threshold: threshold(samplingRatePerMillion),
		failures: expiring.Map[call, string]{TTL: callPeriod, Max: maxMachines},
		calls:    expiring.Map[trace.TraceID, *atomic.Int64]{TTL: callPeriod, Max: maxMachines},
	}
}

// Shutdown exports what is queued, and ends the export. Spans that are emitted later are dropped.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Trace returns the trace of a Machine. It is the zero Trace where the Tracer is off, and for a Machine that is not sampled,
// is nil or has no UID.
func (t *Tracer) Trace(m *clusterv1.Machine) Trace {
	if t == nil || m == nil || m.UID == "" {
		return Trace{}
	}
	id := traceID(m.UID)
	if !t.samples(id) {
		return Trace{}
	}
	return Trace{tracer: t, id: id, uid: m.UID, namespace: m.Namespace, name: m.Name, cluster: m.Spec.ClusterName}
}

// randomValues is how many values the random part of a trace ID has.
const randomValues = 1 << 56

// threshold is the least random part of the trace IDs that are sampled at a rate.
func threshold(samplingRatePerMillion int) uint64 {
	return uint64(randomValues * (1 - float64(samplingRatePerMillion)/PerMillion))
}

// samples reports whether a trace is sampled. All managers with the same rate decide alike. The last seven bytes are those
// that are random in a UID and in the trace IDs of W3C's Trace Context; the sampler of the SDK takes eight, of which two
// bits are the same in all UIDs.
func (t *Tracer) samples(id trace.TraceID) bool {
	return binary.BigEndian.Uint64(id[8:])%randomValues >= t.threshold
}

// admit reports whether another call of a Machine may be emitted.
func (t *Tracer) admit(c call, failure string) bool {
	if failure == "" {
		t.failures.Delete(c)
	} else if last, found := t.failures.Get(c); found && last == failure {
		return false
	} else {
		t.failures.Set(c, failure)
	}
	count, _ := t.calls.GetOrSet(c.trace, &atomic.Int64{})
	return count.Add(1) <= maxCalls
}
