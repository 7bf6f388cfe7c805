// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

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
