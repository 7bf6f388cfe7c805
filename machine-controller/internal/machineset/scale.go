// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/priority"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/results"
)

const (
	// maxParallel is how many Machines are created side by side once the first ones succeeded, or deleted.
	maxParallel = 16
	// maxPerReconcile bounds one reconcile, so that a large set reports progress and takes new orders.
	maxPerReconcile = 100
	// templateRetry is how often a template that does not exist is looked for.
	templateRetry = 30 * time.Second
)

// scale creates or deletes as many Machines as the count is off. Machines being deleted
// still count: their place is taken only when they are gone.
func (r *Reconciler) scale(ctx context.Context, s *state) (reconcile.Result, error) {
	r.Guard.CreationsObserved(s.set.UID)
	if s.set.Spec.Replicas == nil {
		return reconcile.Result{}, r.defaultReplicas(ctx, s)
	}
	missing := int(*s.set.Spec.Replicas) - len(s.machines)
	switch {
	case missing > 0:
		return r.createMissing(ctx, s, missing)
	case missing < 0:
		return r.deleteSurplus(ctx, s, -missing)
	}
	return reconcile.Result{}, nil
}

// defaultReplicas fills in spec.replicas where it is left out, if nobody else has written the set since it was
// read: somebody may have set it. A set of a MachineDeployment keeps its size until that decides.
func (r *Reconciler) defaultReplicas(ctx context.Context, s *state) error {
	last := s.set.Status.Replicas
	if last == nil && metav1.GetControllerOfNoCopy(s.set) != nil {
		last = new(int32(0))
	}
	replicas, err := annotation.DefaultReplicas(s.set, last)
	if err != nil {
		s.blocked = err
		return nil //nolint:nilerr // it is told in a condition; only a new annotation can help
	}
	before := s.set.DeepCopy()
	s.set.Spec.Replicas = &replicas
	if err := r.Client.Patch(ctx, s.set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("setting the default of spec.replicas: %w", err))
	}
	return nil
}

// createMissing makes as many of the missing Machines as the guard allows.
func (r *Reconciler) createMissing(ctx context.Context, s *state, missing int) (reconcile.Result, error) {
	if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
		return reconcile.Result{}, nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if s.blocked = machinename.Check(s.set.Spec.MachineNaming.Template); s.blocked != nil {
		return reconcile.Result{}, nil //nolint:nilerr // it is told in a condition; only a new spec can help
	}
	from, err := r.creator.readTemplates(ctx, s)
	if err != nil {
		s.blocked = err
		return reconcile.Result{RequeueAfter: templateRetry}, ignoreMisconfigured(err)
	}
	if complaint, err := r.preflight(ctx, s); err != nil || complaint != "" {
		s.blocked = cmp.Or(err, errors.New(complaint))
		return reconcile.Result{RequeueAfter: preflightRetry}, ignoreMisconfigured(err)
	}
	decision, err := r.Guard.Create(ctx, s.cluster, s.set, min(missing, maxPerReconcile))
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.createMachines(ctx, s, from, decision.Allowed); err != nil {
		s.blocked = err
		createFailed(r.Events, s.set, err)
		return reconcile.Result{}, err
	}
	if refusal := decision.Refusal; refusal != nil {
		s.blocked = errors.New(refusal.Message)
		return reconcile.Result{RequeueAfter: safety.RetryPeriod}, nil
	}
	if missing > maxPerReconcile {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// createMachines gives birth to that many Machines, in batches that double, so that something that
// fails every time fails once, not a thousand times.
func (r *Reconciler) createMachines(ctx context.Context, s *state, from templates, left int) error {
	for batch := 1; left > 0; batch = min(2*batch, maxParallel) {
		size := min(batch, left)
		var group errgroup.Group
		var created atomic.Int32
		for range size {
			group.Go(func() error {
				err := r.creator.create(ctx, s.set, from)
				if err == nil {
					created.Add(1)
				}
				return err
			})
		}
		err := group.Wait()
		s.created += int(created.Load())
		if err != nil {
			return err
		}
		left -= size
	}
	return nil
}

// deleteSurplus deletes the surplus, in the order that loses least. The MachineDeployment has seen
// to it that marks are in the cache; a set that stands alone does so itself.
func (r *Reconciler) deleteSurplus(ctx context.Context, s *state, surplus int) (reconcile.Result, error) {
	if refusal := r.Guard.NotClaimed(s.cluster); refusal != nil {
		s.scaleDownBlocked = refusal.Message
		return reconcile.Result{RequeueAfter: safety.RetryPeriod}, nil
	}
	if owner := metav1.GetControllerOfNoCopy(s.set); owner == nil {
		shown, err := expectation.DeleteAnnotationsObserved(ctx, r.Live, s.machines, client.InNamespace(s.set.Namespace),
			client.MatchingLabels{clusterv1.MachineSetNameLabel: format.MustFormatValue(s.set.Name)})
		if err != nil || !shown {
			return reconcile.Result{RequeueAfter: coalesce.Window}, err
		}
	}
	seed := fmt.Sprintf("%s/%d", s.set.UID, s.set.Generation)
	return reconcile.Result{}, r.deleteMachines(ctx, s.set, priority.Order(s.machines, s.set.Spec.Deletion.Order, seed)[:surplus])
}

// deleteMachines deletes Machines side by side. What fails keeps no other from going.
func (r *Reconciler) deleteMachines(ctx context.Context, set *clusterv1.MachineSet, machines []*clusterv1.Machine) error {
	return r.inParallel(machines, func(m *clusterv1.Machine) error { return r.deleteMachine(ctx, set, m) })
}

// inParallel does the same for several Machines, those first that come first, and returns every error.
func (r *Reconciler) inParallel(machines []*clusterv1.Machine, do func(*clusterv1.Machine) error) error {
	errs := make([]error, len(machines))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i, m := range machines {
		group.Go(func() error {
			errs[i] = do(m)
			return nil
		})
	}
	_ = group.Wait() // each error is in its place
	return kerrors.NewAggregate(errs)
}

// deleteMachine deletes one Machine unless that is under way.
func (r *Reconciler) deleteMachine(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
	if !m.DeletionTimestamp.IsZero() || r.watch.Foreign(m) {
		return nil
	}
	err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting Machine %q: %w", m.Name, err)
	}
	r.tracker.Deleted(set.UID, m)
	return nil
}

// deleteIfUnchanged deletes one Machine if nobody has changed it since it was read, and reports
// whether it did. What has changed is looked at again at its event.
func (r *Reconciler) deleteIfUnchanged(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine) (bool, error) {
	if !m.DeletionTimestamp.IsZero() || r.watch.Foreign(m) {
		return false, nil
	}
	err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	if err != nil {
		return false, results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting Machine %q: %w", m.Name, err))
	}
	r.tracker.Deleted(set.UID, m)
	return true, nil
}
