// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/panicerror"
)

// Start lists every account once per interval until ctx is done, each by itself and spread over the interval, and
// forgets those that nobody asks for and those whose Secret is gone.
func (c *Cache[M, C]) Start(ctx context.Context) error {
	interval := c.options.Interval
	if interval <= 0 {
		interval = freshness
	}
	for {
		due := c.due()
		pause := time.NewTicker(max(interval/time.Duration(len(due)+1), time.Millisecond))
		for _, next := range append(due, func(context.Context) {}) { // the last part of the interval is for nobody
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

// due forgets the accounts that nobody asks for and returns what is to be done for each of the others.
func (c *Cache[M, C]) due() (all []func(context.Context)) {
	for k, p := range c.snapshot() {
		if c.idle(k, p) {
			continue
		}
		all = append(all, func(ctx context.Context) {
			err := panicerror.Call(func() error { return c.refresh(ctx, k, p) })
			p.guard.note(ctx, "refresh", err)
			if err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "refreshing inventory", "cloud", c.cloud.Name)
			}
		})
	}
	return all
}

// idle forgets an account that nobody asked for in a while.
func (c *Cache[M, C]) idle(k key, p *entry[C]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.options.Now().Sub(p.used) < idle {
		return false
	}
	delete(c.entries, k)
	return true
}

// refresh reads the credentials of an account again where they are not fresh, and then lists it.
func (c *Cache[M, C]) refresh(ctx context.Context, k key, p *entry[C]) error {
	connected, err := c.present(ctx, k, p)
	if err != nil || connected == nil || connected.inventory == nil {
		return err
	}
	return connected.inventory.Refresh(ctx)
}
