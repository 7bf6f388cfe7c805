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

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/marks"
	"drover.io/machine-controller/internal/priority"
	"drover.io/machine-controller/internal/safety"
)

const (
	// atOnce is how many Machines are created side by side once the first ones succeeded, or deleted.
	atOnce = 16
	// perPass bounds one reconcile, so that a large set reports progress and takes new orders.
	perPass = 100
	// modelRetry is how often a template that does not exist is looked for.
	modelRetry = 30 * time.Second
)

// scale creates or deletes as many Machines as the count is off. Machines being deleted
// still count: their place is taken only when they are gone.
func (r *Reconciler) scale(ctx context.Context, f *family) (reconcile.Result, error) {
	r.Guard.Seen(f.set.UID)
	if f.set.Spec.Replicas == nil {
		f.trouble = errors.New("spec.replicas is not set; it has a default, so something removed it")
		return reconcile.Result{}, nil
	}
	missing := int(*f.set.Spec.Replicas) - len(f.machines)
	switch {
	case missing > 0:
		return r.grow(ctx, f, missing)
	case missing < 0:
		return r.shrink(ctx, f, -missing)
	}
	return reconcile.Result{}, nil
}

// grow makes as many of the missing Machines as the guard allows.
func (r *Reconciler) grow(ctx context.Context, f *family, missing int) (reconcile.Result, error) {
	if _, disabled := f.set.Annotations[clusterv1.DisableMachineCreateAnnotation]; disabled {
		return reconcile.Result{}, nil
	}
	if !f.cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	from, err := r.midwife.models(ctx, f)
	if err != nil {
		f.trouble = err
		return reconcile.Result{RequeueAfter: modelRetry}, ignoreMisconfigured(err)
	}
	if complaint, err := r.preflight(ctx, f); err != nil || complaint != "" {
		f.trouble = cmp.Or(err, errors.New(complaint))
		return reconcile.Result{RequeueAfter: preflightRetry}, ignoreMisconfigured(err)
	}
	decision, err := r.Guard.Create(ctx, f.cluster, f.set, min(missing, perPass))
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.multiply(ctx, f, from, decision.Allowed); err != nil {
		f.trouble = err
		createFailed(r.Events, f.set, err)
		return reconcile.Result{}, err
	}
	if refusal := decision.Refusal; refusal != nil {
		f.trouble = errors.New(refusal.Message)
		return reconcile.Result{RequeueAfter: safety.LookAgain}, nil
	}
	if missing > perPass {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// multiply gives birth to that many Machines, in batches that double, so that something that
// fails every time fails once, not a thousand times.
func (r *Reconciler) multiply(ctx context.Context, f *family, from models, left int) error {
	for batch := 1; left > 0; batch = min(2*batch, atOnce) {
		size := min(batch, left)
		var group errgroup.Group
		var born atomic.Int32
		for range size {
			group.Go(func() error {
				err := r.midwife.bear(ctx, f.set, from)
				if err == nil {
					born.Add(1)
				}
				return err
			})
		}
		err := group.Wait()
		f.born += int(born.Load())
		if err != nil {
			return err
		}
		left -= size
	}
	return nil
}

// shrink deletes the surplus, in the order that loses least. The MachineDeployment has seen
// to it that marks are in the cache; a set that stands alone does so itself.
func (r *Reconciler) shrink(ctx context.Context, f *family, surplus int) (reconcile.Result, error) {
	if owner := metav1.GetControllerOfNoCopy(f.set); owner == nil {
		shown, err := marks.Shown(ctx, r.Live, f.machines, client.InNamespace(f.set.Namespace),
			client.MatchingLabels{clusterv1.MachineSetNameLabel: format.MustFormatValue(f.set.Name)})
		if err != nil || !shown {
			return reconcile.Result{RequeueAfter: coalesce.Window}, err
		}
	}
	seed := fmt.Sprintf("%s/%d", f.set.UID, f.set.Generation)
	return reconcile.Result{}, r.removeAll(ctx, f.set, priority.Order(f.machines, f.set.Spec.Deletion.Order, seed)[:surplus])
}

// removeAll deletes Machines side by side, those first that come first. What fails keeps no other from going.
func (r *Reconciler) removeAll(ctx context.Context, set *clusterv1.MachineSet, machines []*clusterv1.Machine) error {
	errs := make([]error, len(machines))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, m := range machines {
		group.Go(func() error {
			errs[i] = r.remove(ctx, set, m)
			return nil
		})
	}
	_ = group.Wait() // each error is in its place
	return kerrors.NewAggregate(errs)
}

// remove deletes one Machine unless that is under way.
func (r *Reconciler) remove(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
	if !m.DeletionTimestamp.IsZero() {
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
