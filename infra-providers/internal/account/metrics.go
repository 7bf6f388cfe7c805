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
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/infra-providers/internal/throttle"
)

var callSeconds = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
	Name:    "drover_infra_cloud_call_duration_seconds",
	Help:    "Time a call of a cloud's driver took, by cloud, operation and kind of result.",
	Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
}, []string{"cloud", "operation", "result"})

// callTime and listTime are how long a call may take. A driver returns soon after that.
const (
	callTime = 2 * time.Minute
	listTime = 5 * time.Minute
)

// metered measures every call of a driver, ends it after its time, and makes an error of its panic.
type metered[C any] struct {
	driver.Driver[C]
	cloud string
	guard *guard
}

func (m *metered[C]) Create(ctx context.Context, req driver.Request[C]) (made driver.Instance, err error) {
	err = m.within(ctx, "create", callTime, func(ctx context.Context) (err error) {
		made, err = m.Driver.Create(ctx, req)
		return err
	})
	return made, err
}

func (m *metered[C]) Get(ctx context.Context, id driver.Identity) (found driver.Instance, err error) {
	err = m.within(ctx, "get", callTime, func(ctx context.Context) (err error) {
		found, err = m.Driver.Get(ctx, id)
		return err
	})
	return found, err
}

func (m *metered[C]) Delete(ctx context.Context, id driver.Identity) error {
	return m.within(ctx, "delete", callTime, func(ctx context.Context) error { return m.Driver.Delete(ctx, id) })
}

func (m *metered[C]) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		start := time.Now()
		var last error
		defer func() { m.observe("list", start, last) }()
		limited, cancel := m.guard.limit(ctx, listTime)
		defer cancel()
		for instance, err := range panicerror.Seq(m.Driver.List(limited, owner)) {
			m.guard.note(ctx, "list", err)
			last = toTimeoutError(ctx, limited, listTime, boundError(err))
			if !yield(instance, last) {
				return
			}
		}
	}
}

// bounded ends the list of what is beside instances after its time, and makes an error of its panic.
type bounded struct {
	driver.AttachedObjectLister
	guard *guard
}

func (b bounded) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		limited, cancel := b.guard.limit(ctx, listTime)
		defer cancel()
		for remain, err := range panicerror.Seq(b.AttachedObjectLister.AttachedObjects(limited, owner)) {
			b.guard.note(ctx, "remains", err)
			if !yield(remain, toTimeoutError(ctx, limited, listTime, boundError(err))) {
				return
			}
		}
	}
}

func (m *metered[C]) within(ctx context.Context, operation string, limit time.Duration, call func(context.Context) error) error {
	start := time.Now()
	err := m.guard.within(ctx, operation, limit, call)
	m.observe(operation, start, err)
	return err
}

// toTimeoutError returns a TimeoutError for a call whose time was over, unless its caller cancelled it.
func toTimeoutError(ctx, limited context.Context, limit time.Duration, err error) error {
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	return &throttle.TimeoutError{Limit: limit}
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
