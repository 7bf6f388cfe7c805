// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import "context"

// Tidy does at once what Start spreads over an interval.
func (c *Cache[M, C]) Tidy(ctx context.Context) {
	for _, next := range c.due(ctx) {
		next(ctx)
	}
}
