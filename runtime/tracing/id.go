// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// traceID is the UID of a Machine, which has as many bytes. Of a UID that is no UUID, which the API permits, it is the hash.
func traceID(uid types.UID) trace.TraceID {
	if parsed, err := uuid.Parse(string(uid)); err == nil && parsed != uuid.Nil {
		return trace.TraceID(parsed)
	}
	sum := sha256.Sum256([]byte(uid))
	return trace.TraceID(sum[:16])
}

// phaseID is the ID of the span of a phase: the same in all managers, so that each can name it as a parent, and a phase that
// is emitted again after a crash is the same span.
func phaseID(id trace.TraceID, name string) trace.SpanID {
	sum := sha256.New()
	sum.Write(id[:])
	sum.Write([]byte(name))
	return trace.SpanID(sum.Sum(nil)[:8])
}

// callID is a random ID for the span of a call.
func callID() trace.SpanID {
	id := trace.SpanID{}
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) // 0 is none
	return id
}

// idsKey is the key of the ids in a context.
type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idGenerator gives each span the IDs that are in its context.
type idGenerator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	chosen, _ := ctx.Value(idsKey{}).(ids)
	return chosen.trace, chosen.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (g idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := g.NewIDs(ctx)
	return span
}
