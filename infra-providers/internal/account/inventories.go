// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"maps"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/panicerror"
)

// Start lists every account once per interval until ctx is done, each by itself and spread over the interval, and
// removes those that are not used and those whose Secret does not exist any more.
func (c *Cache[M, C]) Start(ctx context.Context) error {
	interval := c.options.Interval
	if interval <= 0 {
		interval = freshness
	}
	for {
		due := c.due(ctx)
		pause := time.NewTicker(max(interval/time.Duration(len(due)+1), time.Millisecond))
		for _, next := range append(due, func(context.Context) {}) { // a pause after the last one too
			select {
			case <-ctx.Done():
				pause.Stop()
				return nil
			case <-pause.C:
				go next(ctx)
			}
		}
		pause.Stop()
	}
}

// due removes the accounts that are not used and returns what is to be done for each of the others.
func (c *Cache[M, C]) due(ctx context.Context) (all []func(context.Context)) {
	for k, e := range c.snapshot() {
		if c.removeIdle(ctx, k, e) {
			continue
		}
		all = append(all, func(ctx context.Context) {
			err := panicerror.Call(func() error { return c.refresh(ctx, k, e) })
			e.guard.note(ctx, "refresh", err)
			if err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "refreshing inventory")
			}
		})
	}
	return all
}

// removeIdle removes an account that was not used for a while.
func (c *Cache[M, C]) removeIdle(ctx context.Context, k key, e *entry[C]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	maps.DeleteFunc(e.users, func(namespace string, _ time.Time) bool { return !e.usedBy(namespace, now) })
	if now.Sub(e.used) < idleTimeout {
		return false
	}
	delete(c.entries, k)
	logAccount(ctx, k, "removed account", "message", "it was not used")
	return true
}

// refresh reads the credentials of an account again where they are not fresh, and then lists it.
func (c *Cache[M, C]) refresh(ctx context.Context, k key, e *entry[C]) error {
	connected, err := c.present(ctx, k, e)
	if err != nil || connected == nil || connected.inventory == nil {
		return err
	}
	return connected.inventory.Refresh(ctx)
}
