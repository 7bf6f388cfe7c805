// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

const (
	// maxParallel is how many Machines are written at once.
	maxParallel = 16
	// maxPerReconcile bounds the Machines that one reconcile writes, so that a large set does not occupy a worker for long.
	maxPerReconcile = 100
	// batchRetry is how soon the next Machines of a large set follow.
	batchRetry = time.Second
)

// Updater writes what changes in place into Machines and their children. All fields are required.
type Updater struct {
	Client client.Client
	// Live reads the children, which are not cached.
	Live     client.Reader
	Resolver *contract.Resolver
	Watch    predicates.WatchFilter
}

// Update writes what the MachineSet's template changes in place into up to maxPerReconcile Machines. A Machine that cannot
// be written does not count, and does not keep the others from being written.
func (u *Updater) Update(ctx context.Context, set *clusterv1.MachineSet, machines []*clusterv1.Machine) (reconcile.Result, error) {
	labels := MachineLabels(set)
	errs := make([]error, len(machines))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	var result reconcile.Result
	var written atomic.Int32
	for i, m := range machines {
		if MachineUpToDate(m, set, labels) {
			continue
		}
		if written.Load() >= maxPerReconcile {
			result.RequeueAfter = batchRetry
			break
		}
		group.Go(func() error {
			if errs[i] = u.update(ctx, set, m, labels); errs[i] == nil {
				written.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // each error is in errs
	if n := written.Load(); n > 0 {
		ctrl.LoggerFrom(ctx).Info("updated Machines in place", "count", n)
	}
	return result, kerrors.NewAggregate(errs)
}

// update writes the changes into the children of one Machine, unless it is being deleted, and then into the Machine.
func (u *Updater) update(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine, labels map[string]string) error {
	if m.DeletionTimestamp.IsZero() && !metadataUpToDate(m, set, labels) {
		if err := u.updateChildren(ctx, set, m); err != nil {
			return err
		}
	}
	wanted := m.DeepCopy()
	PropagateToMachine(wanted, set)
	if err := patch.Main(ctx, u.Client, m, wanted); results.IgnoreNotFoundOrConflict(err) != nil {
		return fmt.Errorf("updating Machine %q: %w", m.Name, err)
	}
	return nil
}
