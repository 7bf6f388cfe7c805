// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"errors"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/panicerror"
)

// boundedCall makes a call that ends after its time, and returns the error of its panic.
type boundedCall func(ctx context.Context, call func(context.Context) error) error

// panics logs those of an account's drivers, once for each operation: the server of an account chooses how often it
// causes one.
type panics struct {
	cloud, account string

	mu     sync.Mutex
	logged map[string]bool
}

func (p *panics) log(ctx context.Context, operation string, err error) {
	failure, ok := errors.AsType[*panicerror.Error](err)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logged[operation] {
		return
	}
	if p.logged == nil {
		p.logged = map[string]bool{}
	}
	p.logged[operation] = true
	ctrl.LoggerFrom(ctx).Error(err, "recovered from a panic", "cloud", p.cloud, "account", p.account,
		"operation", operation, "panic", failure.Value, "stack", failure.Stack)
}

// within makes a call that ends after its time.
func (p *panics) within(ctx context.Context, operation string, limit time.Duration, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := panicerror.Call(func() error { return call(limited) })
	p.log(ctx, operation, err)
	return silence(ctx, limited, limit, err)
}

// calls returns how calls of an operation are made.
func (p *panics) calls(operation string) boundedCall {
	return func(ctx context.Context, call func(context.Context) error) error {
		return p.within(ctx, operation, callTime, call)
	}
}
