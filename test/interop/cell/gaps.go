// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	_ "embed"

	"drover.io/test/kit"
)

//go:embed gaps.yaml
var gaps string

// fillGaps grants what our core's own role lacks for upstream's providers.
func (w *World) fillGaps(ctx context.Context, stack *kit.Stack) error {
	if w.Core == Upstream {
		return nil
	}
	return kit.Apply(ctx, stack.Manage, []byte(gaps))
}
