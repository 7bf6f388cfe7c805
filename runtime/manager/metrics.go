// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/runtime/metric"
	"drover.io/runtime/version"
)

// buildInfo names the version, as every component of Kubernetes does.
var buildInfo = metric.NewGauge(metric.Options{
	Name: "drover_build_info", Help: "The version of the program, as labels; always 1.", Stability: metric.Stable,
	Labels: []metric.Label{metric.Named("version", "the release"), metric.Named("revision", "the commit"), metric.Named("go_version", "the version of Go")},
})

func setBuildInfo() {
	built := version.Get()
	buildInfo.Set(1, built.Version, built.Revision, built.Go)
}

// metricsOptions are the settings of the metrics endpoint. With --metrics-secure it serves HTTPS, and answers only users
// whom the management cluster authenticates by their token and permits to get the non-resource URL /metrics.
func (o *Options) metricsOptions() metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsBindAddress}
	if !o.MetricsSecure {
		return options
	}
	options.SecureServing, options.CertDir = true, o.MetricsCertDir
	options.FilterProvider = filters.WithAuthenticationAndAuthorization
	return options
}
