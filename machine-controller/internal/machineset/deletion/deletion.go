// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion deletes Machines of a MachineSet, in parallel and with preconditions, and records each deletion until
// the cache shows it. Which Machines are deleted is decided by the machineset controller.
package deletion

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// MaxParallel is how many Machines are created at once after the first ones succeeded, or deleted.
const MaxParallel = 16

// Reasons for which Machines are deleted, for the log.
const (
	ReasonSetDeleted  = "MachineSetDeleted"
	ReasonScaleDown   = "ScaleDown"
	ReasonRollout     = "Rollout"
	ReasonRemediation = "Remediation"
)

// Deleter deletes Machines and records that it did.
type Deleter struct {
	Client  client.Client
	Tracker *expectation.Tracker
	Watch   predicates.WatchFilter
}

// DeleteAll deletes Machines in parallel. One that fails does not keep the others from being deleted.
func (d *Deleter) DeleteAll(ctx context.Context, set *clusterv1.MachineSet, machines []*clusterv1.Machine, reason string) error {
	return InParallel(machines, func(m *clusterv1.Machine) error { return d.deleteMachine(ctx, set, m, reason) })
}

// InParallel calls the function for several Machines, starting in their order, and returns every error.
func InParallel(machines []*clusterv1.Machine, do func(*clusterv1.Machine) error) error {
	errs := make([]error, len(machines))
	var group errgroup.Group
	group.SetLimit(MaxParallel)
	for i, m := range machines {
		group.Go(func() error {
			errs[i] = do(m)
			return nil
		})
	}
	_ = group.Wait() // each error is in errs
	return kerrors.NewAggregate(errs)
}

// deleteMachine deletes one Machine unless it is being deleted.
func (d *Deleter) deleteMachine(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine, reason string) error {
	if !m.DeletionTimestamp.IsZero() || d.Watch.Foreign(m) {
		return nil
	}
	err := d.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		d.failed(set, err)
		return fmt.Errorf("deleting Machine %q: %w", m.Name, err)
	}
	d.deleted(ctx, set, m, reason)
	return nil
}

// DeleteIfUnchanged deletes one Machine if it has not changed since it was read, and reports whether it did. The event of
// a change triggers another reconcile.
func (d *Deleter) DeleteIfUnchanged(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine, reason string) (bool, error) {
	if !m.DeletionTimestamp.IsZero() || d.Watch.Foreign(m) {
		return false, nil
	}
	err := d.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	if err != nil {
		d.failed(set, err)
		return false, results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting Machine %q: %w", m.Name, err))
	}
	d.deleted(ctx, set, m, reason)
	return true, nil
}

func (d *Deleter) deleted(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine, reason string) {
	d.Tracker.Deleted(set.UID, m)
	ctrl.LoggerFrom(ctx).Info("deleted Machine", "Machine", klog.KObj(m), "reason", reason)
}

// failed has the cache compared with the API server again, unless the API server has answered that it deleted nothing: the
// Machine may be being deleted, and another one must not be chosen in its place.
func (d *Deleter) failed(set *clusterv1.MachineSet, err error) {
	if !results.IsRefused(err) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.Tracker.Unverify(set.UID)
	}
}
