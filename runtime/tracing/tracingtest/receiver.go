// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracingtest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Receiver is a receiver of spans by OTLP over gRPC on loopback.
type Receiver struct {
	collectorpb.UnimplementedTraceServiceServer
	// Address has host and port.
	Address string

	mu      sync.Mutex
	spans   []Received
	headers metadata.MD
	changed chan struct{}
}

// Received is a span with the resource that emitted it.
type Received struct {
	*tracepb.Span
	// Service is the name of the manager, and Resource all attributes of it that are texts.
	Service  string
	Resource map[string]string
}

// Text returns the attribute of a span that is a text; empty without it.
func (r Received) Text(key string) string {
	for _, each := range r.GetAttributes() {
		if each.GetKey() == key {
			return each.GetValue().GetStringValue()
		}
	}
	return ""
}

// Receive starts a receiver that runs until the test ends. Options are those of its server, such as TLS.
func Receive(t testing.TB, options ...grpc.ServerOption) *Receiver {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{Address: listener.Addr().String(), changed: make(chan struct{})}
	server := grpc.NewServer(options...)
	collectorpb.RegisterTraceServiceServer(server, r)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Export implements the service.
func (r *Receiver) Export(ctx context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers, _ = metadata.FromIncomingContext(ctx)
	for _, from := range request.GetResourceSpans() {
		resource := map[string]string{}
		for _, each := range from.GetResource().GetAttributes() {
			resource[each.GetKey()] = each.GetValue().GetStringValue()
		}
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans = append(r.spans, Received{Span: span, Service: resource["service.name"], Resource: resource})
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// Header returns the values of a header of the last request.
func (r *Receiver) Header(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.headers.Get(name)
}

// Await waits until the spans that were received are enough, and returns them.
func (r *Receiver) Await(ctx context.Context, enough func([]Received) bool) ([]Received, error) {
	for {
		r.mu.Lock()
		spans, changed := slices.Clone(r.spans), r.changed
		r.mu.Unlock()
		if enough(spans) {
			return spans, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return spans, ctx.Err()
		}
	}
}
