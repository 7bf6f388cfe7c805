// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/infra-providers/driver"
)

var callSeconds = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
	Name:    "drover_infra_cloud_call_duration_seconds",
	Help:    "Time a call of a cloud's driver took, by cloud, operation and kind of result.",
	Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
}, []string{"cloud", "operation", "result"})

// metered measures every call of a driver.
type metered[C any] struct {
	driver.Driver[C]
	cloud string
}

func (m *metered[C]) Create(ctx context.Context, req driver.Request[C]) (driver.Instance, error) {
	start := time.Now()
	instance, err := m.Driver.Create(ctx, req)
	m.observe("create", start, err)
	return instance, err
}

func (m *metered[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	start := time.Now()
	instance, err := m.Driver.Get(ctx, id)
	m.observe("get", start, err)
	return instance, err
}

func (m *metered[C]) Delete(ctx context.Context, id driver.Identity) error {
	start := time.Now()
	err := m.Driver.Delete(ctx, id)
	m.observe("delete", start, err)
	return err
}

func (m *metered[C]) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		start := time.Now()
		var last error
		defer func() { m.observe("list", start, last) }()
		for instance, err := range m.Driver.List(ctx, owner) {
			last = err
			if !yield(instance, err) {
				return
			}
		}
	}
}

func (m *metered[C]) restart(ctx context.Context, restarter driver.Restarter, id driver.Identity) error {
	start := time.Now()
	err := restarter.Restart(ctx, id)
	m.observe("restart", start, err)
	return err
}

func (m *metered[C]) observe(operation string, start time.Time, err error) {
	callSeconds.WithLabelValues(m.cloud, operation, result(err)).Observe(time.Since(start).Seconds())
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case driver.IsNotFound(err):
		return "not_found"
	case driver.IsNotOwned(err):
		return "not_owned"
	case driver.IsNotRunning(err):
		return "not_running"
	case driver.IsInvalidConfiguration(err):
		return "invalid_configuration"
	case driver.IsUnauthorized(err):
		return "unauthorized"
	case driver.IsQuotaExceeded(err):
		return "quota_exceeded"
	case driver.IsInsufficientCapacity(err):
		return "insufficient_capacity"
	case driver.IsRateLimited(err):
		return "rate_limited"
	case driver.IsUnfinished(err):
		return "unfinished"
	default:
		return "error"
	}
}
