// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials/insecure"

	"drover.io/runtime/expiring"
	"drover.io/runtime/requesterror"
)

// Exporter is where spans are sent, by OTLP over gRPC. The environment variables of OpenTelemetry decide the rest: headers,
// certificates, compression, timeouts, and the size of the queue.
type Exporter struct {
	// Endpoint is the URL of the receiver: http is plaintext, https is TLS.
	Endpoint string
	// SamplingRatePerMillion is how many of a million Machines are traced.
	SamplingRatePerMillion int
	// Service and Version are those of the manager. Instance tells its replicas apart.
	Service, Version, Instance string
	Log                        logr.Logger
}

// plaintext is how the URL of an endpoint without TLS begins.
const plaintext = "http://"

// certificates are the environment variables with files for TLS.
var certificates = []string{
	"OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
	"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
}

// NewTracer returns a Tracer that exports in the background. It does not wait for the receiver. What cannot be exported is
// dropped, and logged once in a while.
func (e Exporter) NewTracer(ctx context.Context) (*Tracer, error) {
	if err := e.checkCertificates(); err != nil {
		return nil, err
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(e.Endpoint)}
	if strings.HasPrefix(e.Endpoint, plaintext) {
		options = append(options, otlptracegrpc.WithTLSCredentials(insecure.NewCredentials()))
	}
	otel.SetLogger(e.Log)
	limiter := &expiring.Limiter[struct{}]{Period: logPeriod}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if limiter.Allow(struct{}{}) {
			e.Log.Info("dropped spans", "message", requesterror.Truncate(err.Error()))
		}
	}))
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("making an exporter to %s: %w", e.Endpoint, err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", e.Service), attribute.String("service.version", e.Version), attribute.String("service.instance.id", e.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return New(e.SamplingRatePerMillion, sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// logPeriod is how often it is logged that spans could not be exported.
const logPeriod = time.Minute

// checkCertificates refuses what the library would only log: files that cannot be read, and any where there is no TLS.
func (e Exporter) checkCertificates() error {
	for _, name := range certificates {
		path := os.Getenv(name)
		if path == "" {
			continue
		}
		if strings.HasPrefix(e.Endpoint, plaintext) {
			return fmt.Errorf("%s has no effect on an endpoint without TLS: use https instead of http in %s", name, e.Endpoint)
		}
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("%s must be a file that can be read: %w", name, err)
		}
	}
	return nil
}
