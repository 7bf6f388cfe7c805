// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/runtime/flagcheck"
	"drover.io/runtime/tracing"
	"drover.io/runtime/version"
)

// tracingOptions are the flags of tracing.
type tracingOptions struct {
	// endpoint is the URL of the receiver of spans; empty is off.
	endpoint string
	// samplingRate is how many of a million Machines are traced.
	samplingRate int
}

func (o *tracingOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.endpoint, "tracing-endpoint", "", "URL of the receiver of OpenTelemetry spans about Machines, by OTLP over gRPC: http://host:4317 is plaintext, https://host:4317 is TLS; empty is no tracing")
	flags.IntVar(&o.samplingRate, "tracing-sampling-rate-per-million", tracing.PerMillion, "how many of a million Machines are traced, the same ones by all managers with this rate")
}

func (o *tracingOptions) validate() error {
	if err := cmp.Or(
		flagcheck.URL("--tracing-endpoint", o.endpoint),
		flagcheck.AtLeast("--tracing-sampling-rate-per-million", o.samplingRate, 0),
		flagcheck.AtMost("--tracing-sampling-rate-per-million", o.samplingRate, tracing.PerMillion),
	); err != nil {
		return err
	}
	if o.endpoint == "" {
		if o.samplingRate != tracing.PerMillion {
			return errors.New("--tracing-sampling-rate-per-million has no effect without --tracing-endpoint")
		}
		return nil
	}
	if parsed, err := url.Parse(o.endpoint); err != nil || parsed.Port() == "" || parsed.Path != "" {
		return fmt.Errorf("--tracing-endpoint must be a URL with a port and without a path, such as http://collector.example.org:4317, as OTLP over gRPC has none, not %q", o.endpoint)
	}
	return nil
}

// start returns the Tracer of a manager; nil where tracing is off.
func (o *tracingOptions) start(ctx context.Context, name string) (*tracing.Tracer, error) {
	if o.endpoint == "" {
		return nil, nil //nolint:nilnil // off is a result
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	tracer, err := tracing.Exporter{
		Endpoint: o.endpoint, SamplingRatePerMillion: o.samplingRate,
		Service: name, Version: version.Get().Version, Instance: host, Log: ctrl.Log.WithName("tracing"),
	}.NewTracer(ctx)
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint: %w", err)
	}
	return tracer, nil
}

// Tracer returns the Tracer of a manager that [New] has made; nil, which is off, for any other one.
func Tracer(mgr ctrl.Manager) *tracing.Tracer {
	if made, ok := mgr.(*readyManager); ok {
		return made.tracer
	}
	return nil
}

// flushTimeout is how long an ended manager may take to export its last spans. With shutdownTimeout it is within the 10
// seconds that the Deployments grant.
const flushTimeout = time.Second

// flush exports the last spans.
func (m *readyManager) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := m.tracer.Shutdown(ctx); err != nil {
		m.GetLogger().WithName("tracing").Info("dropped spans", "message", err.Error())
	}
}
