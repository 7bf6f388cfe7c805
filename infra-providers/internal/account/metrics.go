// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"errors"
	"iter"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/infra-providers/internal/throttle"
	"drover.io/runtime/metric"
)

// operations are those of a driver.
var operations = []string{"create", "get", "delete", "list", "attached_objects", "size", "image", "account", "provision", "tag", "restart", "console"}

var callSeconds = metric.NewHistogram(metric.Options{
	Name: "drover_infra_cloud_call_duration_seconds", Help: "Seconds that a call of a cloud's driver took, by cloud, operation and kind of result.", Stability: metric.Stable,
	Labels: []metric.Label{
		metric.Named("cloud", "the provider"), metric.Fixed("operation", operations...),
		metric.Fixed("result", "ok", "not_found", "not_owned", "not_running", "invalid_configuration", "unauthorized", "quota_exceeded", "insufficient_capacity",
			"rate_limited", "unfinished", "timeout", "error"),
	},
	Buckets: []float64{0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48},
})

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

func (m *metered[C]) Create(ctx context.Context, req driver.CreateRequest[C]) (made driver.Instance, err error) {
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
	// observe records how long the list took, and its last error.
	observe func(operation string, start time.Time, err error)
}

func (b bounded) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		start := time.Now()
		var last error
		defer func() { b.observe("attached_objects", start, last) }()
		limited, cancel := b.guard.limit(ctx, listTime)
		defer cancel()
		for remain, err := range panicerror.Seq(b.AttachedObjectLister.AttachedObjects(limited, owner)) {
			b.guard.note(ctx, "remains", err)
			last = toTimeoutError(ctx, limited, listTime, boundError(err))
			if !yield(remain, last) {
				return
			}
		}
	}
}

func (m *metered[C]) within(ctx context.Context, operation string, limit time.Duration, call func(context.Context) error) error {
	start := time.Now()
	err := m.guard.within(ctx, operation, limit, call)
	m.observe(operation, start, err)
	emitCall(ctx, m.cloud, operation, start, err)
	return err
}

// calls returns how calls of an operation are made.
func (m *metered[C]) calls(operation string) boundedCall {
	return func(ctx context.Context, call func(context.Context) error) error {
		return m.within(ctx, operation, callTime, call)
	}
}

// toTimeoutError returns a TimeoutError for a call whose time was over, unless its caller cancelled it.
func toTimeoutError(ctx, limited context.Context, limit time.Duration, err error) error {
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	return &throttle.TimeoutError{Limit: limit}
}

func (m *metered[C]) observe(operation string, start time.Time, err error) {
	callSeconds.Observe(time.Since(start).Seconds(), m.cloud, operation, result(err))
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
	case isTimeout(err):
		return "timeout"
	default:
		return "error"
	}
}

func isTimeout(err error) bool {
	_, is := errors.AsType[*throttle.TimeoutError](err)
	return is
}
