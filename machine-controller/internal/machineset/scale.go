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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/machineset/deletion"
	"drover.io/machine-controller/internal/priority"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/runtime/results"
)

const (
	// maxPerReconcile bounds the Machines that one reconcile creates, so that a large set reports progress and observes a
	// change of its spec.
	maxPerReconcile = 100
	// templateRetry is how often to read a template again that does not exist.
	templateRetry = 30 * time.Second
	// preflightRetry is how often the preflight checks run again after one has failed.
	preflightRetry = 15 * time.Second
)

// scaler creates or deletes Machines until there are as many as spec.replicas. Machines that are being deleted still count:
// they are replaced only when they are gone.
type scaler struct {
	client    client.Client
	live      client.Reader
	guard     *safety.Guard
	creator   *creation.Creator
	preflight *preflighter
	deleter   *deletion.Deleter
	events    events.EventRecorder
}

func (sc *scaler) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if !s.cacheCurrent || s.remediated {
		return reconcile.Result{}, nil
	}
	sc.guard.CreationsObserved(s.set.UID)
	if s.set.Spec.Replicas == nil {
		return reconcile.Result{}, sc.defaultReplicas(ctx, s)
	}
	missing := int(*s.set.Spec.Replicas) - len(s.machines)
	switch {
	case missing > 0:
		return sc.createMissing(ctx, s, missing)
	case missing < 0:
		return sc.deleteSurplus(ctx, s, -missing)
	}
	return reconcile.Result{}, nil
}

// defaultReplicas sets spec.replicas where it is left out, unless the set was written since it was read: spec.replicas may
// be set now. A set of a MachineDeployment keeps its size until the MachineDeployment sets it.
func (sc *scaler) defaultReplicas(ctx context.Context, s *state) error {
	last := s.set.Status.Replicas
	if last == nil && metav1.GetControllerOfNoCopy(s.set) != nil {
		last = new(int32(0))
	}
	replicas, err := annotation.DefaultReplicas(s.set, last)
	if err != nil {
		s.blocked = err
		return nil //nolint:nilerr // it is in a condition; only a new annotation can help
	}
	before := s.set.DeepCopy()
	s.set.Spec.Replicas = &replicas
	if err := sc.client.Patch(ctx, s.set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("setting the default of spec.replicas: %w", err))
	}
	ctrl.LoggerFrom(ctx).Info("set default replicas of MachineSet", "replicas", replicas)
	return nil
}

// createMissing creates as many of the missing Machines as the guard allows.
func (sc *scaler) createMissing(ctx context.Context, s *state, missing int) (reconcile.Result, error) {
	denied := func(reason, message string) {
		ctrl.LoggerFrom(ctx).V(1).Info("did not create Machines", "count", missing, "reason", reason, "message", message)
	}
	if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
		denied("CreationDisabled", clusterv1.DisableMachineCreateAnnotation)
		return reconcile.Result{}, nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		denied("ClusterDeleting", "")
		return reconcile.Result{}, nil
	}
	if s.blocked = machinename.Check(s.set.Spec.MachineNaming.Template); s.blocked != nil {
		denied("InvalidNamingTemplate", s.blocked.Error())
		return reconcile.Result{}, nil //nolint:nilerr // it is in a condition; only a new spec can help
	}
	if s.blocked = checkSelected(s.set); s.blocked != nil {
		denied("NotSelected", s.blocked.Error())
		return reconcile.Result{}, nil //nolint:nilerr // it is in a condition; only a new MachineSet can help
	}
	from, err := sc.creator.ReadTemplates(ctx, s.set)
	if err != nil {
		s.blocked = err
		denied("TemplateUnreadable", err.Error())
		return reconcile.Result{RequeueAfter: templateRetry}, ignoreMisconfigured(err)
	}
	if problem, err := sc.preflight.check(ctx, s); err != nil || problem.Message != "" {
		s.blocked, s.passes = cmp.Or(err, errors.New(problem.Message)), problem.Passes
		denied("PreflightCheckFailed", s.blocked.Error())
		return reconcile.Result{RequeueAfter: preflightRetry}, ignoreMisconfigured(err)
	}
	decision, err := sc.guard.Create(ctx, s.cluster, s.set, min(missing, maxPerReconcile))
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := sc.createMachines(ctx, s, from, decision.Allowed); err != nil {
		s.blocked = err
		createFailed(sc.events, s.set, err)
		return reconcile.Result{}, err // also one that is refused, whose message has another name each time: the back-off bounds the writes
	}
	if refusal := decision.Refusal; refusal != nil {
		s.blocked, s.passes = errors.New(refusal.Message), refusal.Reason == budget.ReasonMaxPending
		missing -= decision.Allowed
		denied(refusal.Reason, refusal.Message)
		return reconcile.Result{RequeueAfter: safety.RetryPeriod}, nil
	}
	if missing > maxPerReconcile {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// createMachines creates that many Machines, in batches that double, so that what fails every time fails once, not a
// thousand times.
func (sc *scaler) createMachines(ctx context.Context, s *state, from creation.Templates, left int) error {
	for batch := 1; left > 0; batch = min(2*batch, deletion.MaxParallel) {
		size := min(batch, left)
		var group errgroup.Group
		var created atomic.Int32
		for range size {
			group.Go(func() error {
				err := sc.creator.Create(ctx, s.set, from)
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

// deleteSurplus deletes the surplus, in the order of package priority. The cache must show which Machines are annotated for
// deletion: the machinedeployment controller has ensured that before it scales; a set without one ensures it here.
func (sc *scaler) deleteSurplus(ctx context.Context, s *state, surplus int) (reconcile.Result, error) {
	if refusal := sc.guard.NotClaimed(s.cluster); refusal != nil {
		s.scaleDownBlocked = refusal.Message
		ctrl.LoggerFrom(ctx).V(1).Info("did not delete surplus Machines", "count", surplus, "reason", refusal.Reason, "message", refusal.Message)
		return reconcile.Result{RequeueAfter: safety.RetryPeriod}, nil
	}
	if current, err := sc.isCurrent(ctx, s.set); err != nil || !current {
		return reconcile.Result{RequeueAfter: coalesce.Window}, err
	}
	if owner := metav1.GetControllerOfNoCopy(s.set); owner == nil {
		observed, err := expectation.DeleteAnnotationsObserved(ctx, sc.live, s.machines, client.InNamespace(s.set.Namespace),
			client.MatchingLabels{clusterv1.MachineSetNameLabel: format.MustFormatValue(s.set.Name)})
		if err != nil || !observed {
			return reconcile.Result{RequeueAfter: coalesce.Window}, err
		}
	}
	seed := fmt.Sprintf("%s/%d", s.set.UID, s.set.Generation)
	ordered := priority.Order(s.machines, s.set.Spec.Deletion.Order, seed)
	err := sc.deleter.DeleteAll(ctx, s.set, ordered[:surplus], sc.surplusReason(ctx, s.set))
	s.scaleDownBlocked = results.Refusal(err)
	return safety.RetryRefused(ctx, err)
}

// isCurrent reports whether the API server has the same number of replicas. The cache of a new leader may show an older
// MachineSet and newer Machines, since each of its lists may come from another API server.
func (sc *scaler) isCurrent(ctx context.Context, set *clusterv1.MachineSet) (bool, error) {
	live := &clusterv1.MachineSet{}
	if err := sc.live.Get(ctx, client.ObjectKeyFromObject(set), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.UID == set.UID && ptr.Equal(live.Spec.Replicas, set.Spec.Replicas), nil
}

// surplusReason is why a set has surplus Machines: its MachineDeployment rolls out another template, or it was scaled down.
func (sc *scaler) surplusReason(ctx context.Context, set *clusterv1.MachineSet) string {
	md, err := deploymentOf(ctx, sc.client, set)
	if err == nil && md != nil && revision.Of(set) < revision.Of(md) {
		return deletion.ReasonRollout
	}
	return deletion.ReasonScaleDown
}
