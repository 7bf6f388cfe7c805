// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

func TestTracingFlagsAreChecked(t *testing.T) {
	t.Parallel()
	const form, url = "--tracing-endpoint must be a URL with a port and without a path, such as http://collector.example.org:4317", "--tracing-endpoint must be a URL such as"
	for args, want := range map[string]string{
		"--tracing-endpoint=collector:4317":                                                    url,
		"--tracing-endpoint=grpc://collector:4317":                                             url,
		"--tracing-endpoint=http://user:password@collector:4317":                               url,
		"--tracing-endpoint=http://collector":                                                  form,
		"--tracing-endpoint=https://collector:4318/v1/traces":                                  form,
		"--tracing-endpoint=http://collector:4317 --tracing-sampling-rate-per-million=-1":      "--tracing-sampling-rate-per-million must be at least 0, not -1",
		"--tracing-endpoint=http://collector:4317 --tracing-sampling-rate-per-million=1000001": "--tracing-sampling-rate-per-million must be at most 1000000, not 1000001",
		"--tracing-endpoint=http://collector:4317 --tracing-sampling-rate-per-million=0.1":     `invalid value "0.1" for --tracing-sampling-rate-per-million`,
		"--tracing-sampling-rate-per-million=10":                                               "--tracing-sampling-rate-per-million has no effect without --tracing-endpoint",
		"--tracing-endpoint=http://collector:4317 --tracing-sampling-rate-per-million=10":      "",
		"--tracing-endpoint=https://[::1]:4317":                                                "",
	} {
		_, err := Parse("program", strings.Fields(args), nil)
		if want == "" && err == nil {
			continue
		}
		if want == "" || err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v, want %q", args, err, want)
		}
	}
}

// apiServer is a management cluster without kinds.
func apiServer(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(versionAnswer))
		default:
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		}
	}))
	t.Cleanup(server.Close)
	useKubeconfig(t, server.URL)
}

func newTestManager(t *testing.T, args ...string) (ctrl.Manager, error) {
	t.Helper()
	o, err := Parse("program", append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
}

// TestManagerExportsItsLastSpans ends a manager right after it has emitted a span.
func TestManagerExportsItsLastSpans(t *testing.T) {
	apiServer(t)
	receiver := tracingtest.Receive(t)
	mgr, err := newTestManager(t, "--tracing-endpoint=http://"+receiver.Address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	Tracer(mgr).Trace(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}).Phase(tracing.Span{Name: "last", Start: time.Now(), End: time.Now()})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	spans, err := receiver.Await(t.Context(), func([]tracingtest.Received) bool { return true })
	if err != nil || len(spans) != 1 || spans[0].GetName() != "last" || spans[0].Service != "drover-test" {
		t.Errorf("got %v, %v", spans, err)
	}
}

func TestTracingIsOffWithoutItsFlag(t *testing.T) {
	apiServer(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	mgr, err := newTestManager(t)
	if err != nil {
		t.Fatal(err)
	}
	if tracer := Tracer(mgr); tracer != nil {
		t.Error("there is a Tracer")
	}
}

func TestErrorOfTracingIsOneLine(t *testing.T) {
	apiServer(t)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")
	if _, err := newTestManager(t, "--tracing-endpoint=https://127.0.0.1:4317"); err == nil || !strings.HasPrefix(err.Error(), "--tracing-endpoint: OTEL_EXPORTER_OTLP_CERTIFICATE must be") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
}
