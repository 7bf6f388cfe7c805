// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/util/cert"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

// awaitTime bounds each wait; it does not measure how long one takes.
const awaitTime = time.Minute

// start starts a Tracer that exports to a URL.
func start(t *testing.T, endpoint string) *tracing.Tracer {
	t.Helper()
	tracer, err := exporter(endpoint).NewTracer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func exporter(endpoint string) tracing.Exporter {
	return tracing.Exporter{
		Endpoint: endpoint, SamplingRatePerMillion: tracing.PerMillion, Service: "drover-test", Version: "v1", Instance: "pod", Log: logr.Discard(),
	}
}

func shutdown(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTime)
	defer cancel()
	if err := tracer.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

func one(t *testing.T, r *tracingtest.Receiver) tracingtest.Received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTime)
	defer cancel()
	spans, err := r.Await(ctx, func(all []tracingtest.Received) bool { return len(all) == 1 })
	if err != nil {
		t.Fatalf("%d spans: %v", len(spans), err)
	}
	return spans[0]
}

func TestShutdownExportsWhatIsQueued(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // the flag takes precedence
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=management")
	receiver := tracingtest.Receive(t)
	tracer := start(t, "http://"+receiver.Address)
	tracer.Trace(machine(uid)).Phase(span(tracing.CreateMachine))
	shutdown(t, tracer)
	got := one(t, receiver)
	if got.GetName() != tracing.CreateMachine || time.Duration(got.GetEndTimeUnixNano()-got.GetStartTimeUnixNano()) != time.Second || got.Text("drover.machine.name") != "m" {
		t.Errorf("got %v", got)
	}
	for key, want := range map[string]string{"service.name": "drover-test", "service.version": "v1", "service.instance.id": "pod", "k8s.cluster.name": "management"} {
		if got.Resource[key] != want {
			t.Errorf("%s of the resource is %q, want %q", key, got.Resource[key], want)
		}
	}
	if diff := cmp.Diff([]string{"Bearer x"}, receiver.Header("authorization")); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	tracer.Trace(machine(uid)).Phase(span(tracing.DeleteMachine)) // does no harm
}

// tlsOption is TLS of a receiver, whose certificate is its own authority, and the file with that.
func tlsOption(t *testing.T) (option grpc.ServerOption, authority string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return grpc.Creds(credentials.NewServerTLSFromCert(&pair)), authority
}

func TestHTTPSIsTLS(t *testing.T) {
	option, authority := tlsOption(t)
	receiver := tracingtest.Receive(t, option)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true") // the URL takes precedence
	tracer := start(t, "https://"+receiver.Address)
	tracer.Trace(machine(uid)).Phase(span(tracing.CreateMachine))
	shutdown(t, tracer)
	one(t, receiver)
}

func TestCertificatesAreChecked(t *testing.T) {
	_, authority := tlsOption(t)
	for name, test := range map[string]struct{ variable, file, endpoint, want string }{
		"without TLS": {"OTEL_EXPORTER_OTLP_CERTIFICATE", authority, "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_CERTIFICATE has no effect on an endpoint without TLS: use https"},
		"missing":     {"OTEL_EXPORTER_OTLP_CLIENT_KEY", authority + "x", "https://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_CLIENT_KEY must be a file that can be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(test.variable, test.file)
			if _, err := exporter(test.endpoint).NewTracer(t.Context()); err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestResourceAttributesAreChecked(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense")
	if _, err := exporter("http://127.0.0.1:4317").NewTracer(t.Context()); err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("the error is %v", err)
	}
}

// TestReceiverThatHangsBlocksNothing emits far more than the queue has room for, to a receiver that accepts connections and
// never answers, and ends within the time of the context.
func TestReceiverThatHangsBlocksNothing(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	tracer := start(t, "http://"+listener.Addr().String())
	for range 10_000 {
		tracer.Trace(machine(uid)).Phase(span(tracing.CreateMachine))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Shutdown(ctx); err == nil {
		t.Error("the shutdown exported everything")
	}
}
