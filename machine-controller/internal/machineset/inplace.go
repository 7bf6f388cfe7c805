// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/results"
)

// propagationRetry is how soon the rest of a large set follows.
const propagationRetry = time.Second

// propagateToMachines carries what the template changes in place to the Machines, side by side, and to no
// more of them than perPass, so that a large set does not hold a worker for long. Machines
// that cannot be written do not count, and keep no other from its turn.
func (r *Reconciler) propagateToMachines(ctx context.Context, s *state) (reconcile.Result, error) {
	labels := machineLabels(s.set)
	errs := make([]error, len(s.machines))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	var result reconcile.Result
	var written atomic.Int32
	for i, m := range s.machines {
		if machineUpToDate(m, s.set, labels) {
			continue
		}
		if written.Load() >= maxPerReconcile {
			result.RequeueAfter = propagationRetry
			break
		}
		group.Go(func() error {
			if errs[i] = r.updateMachine(ctx, s.set, m); errs[i] == nil {
				written.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // each error is in its place
	return result, kerrors.NewAggregate(errs)
}

// updateMachine writes the changes into the objects of one Machine and then into the Machine.
func (r *Reconciler) updateMachine(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
	if !metadataUpToDate(m, set) {
		if err := r.propagateToChildren(ctx, set, m); err != nil {
			return err
		}
	}
	wanted := m.DeepCopy()
	propagate(wanted, set)
	if err := patch.Main(ctx, r.Client, m, wanted); results.IgnoreNotFoundOrConflict(err) != nil {
		return fmt.Errorf("updating Machine %q: %w", m.Name, err)
	}
	return nil
}
