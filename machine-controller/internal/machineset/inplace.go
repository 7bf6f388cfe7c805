// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/inplace"
)

// propagator writes what the template changes in place into the Machines.
type propagator struct{ updater *inplace.Updater }

func (p *propagator) run(ctx context.Context, s *state) (reconcile.Result, error) {
	return p.updater.Update(ctx, s.set, s.machines)
}
