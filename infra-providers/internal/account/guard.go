// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/runtime/httplimit"
)

// boundedCall makes a call that ends after its time, and returns the error of its panic.
type boundedCall func(ctx context.Context, call func(context.Context) error) error

// guard bounds what a call of an account's drivers takes: its time, its long answers as those of one holder, and no more
// than an error where it panics. Panics are logged once for each operation, because the server of an account chooses how
// often it causes one. It also notes when a connection leads to another account than before.
type guard struct {
	cloud, account string
	// namespace is that of the Secret with the credentials; empty where they are the provider's own.
	namespace string

	// moved is true after an AccountMismatchError of a driver, until there is a new connection.
	moved atomic.Bool

	mu     sync.Mutex
	logged map[string]bool
}

// note records the error of a call.
func (g *guard) note(ctx context.Context, operation string, err error) {
	if driver.IsAccountMismatch(err) {
		g.moved.Store(true)
	}
	failure, ok := errors.AsType[*panicerror.Error](err)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.logged[operation] {
		return
	}
	if g.logged == nil {
		g.logged = map[string]bool{}
	}
	g.logged[operation] = true
	ctrl.LoggerFrom(ctx).Error(err, "recovered from a panic", "cloud", g.cloud, "account", g.account,
		"operation", operation, "panic", failure.Value, "stack", failure.Stack)
}

// limit returns the context of a call that may take so long.
func (g *guard) limit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(httplimit.WithHolder(ctx, g.namespace), limit)
}

// within makes a call that ends after its time.
func (g *guard) within(ctx context.Context, operation string, limit time.Duration, call func(context.Context) error) error {
	limited, cancel := g.limit(ctx, limit)
	defer cancel()
	err := panicerror.Call(func() error { return call(limited) })
	g.note(ctx, operation, err)
	return toTimeoutError(ctx, limited, limit, boundError(err))
}

// boundError returns an error that has no longer text than a condition, which is logged and kept with its error.
func boundError(err error) error {
	if err == nil || len(err.Error()) <= driver.MaxBrief {
		return err
	}
	return driver.Brief(err)
}
