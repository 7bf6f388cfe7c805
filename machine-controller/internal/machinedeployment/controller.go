// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinedeployment reconciles MachineDeployments: it keeps one MachineSet per template, and moves replicas from old
// ones to the current one as package rollout decides. It reads the state and applies the decision; the arithmetic of a
// rollout is in package rollout, and Machines are created and deleted by the machineset controller.
package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/clusterpredicate"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/backoff"
	"drover.io/runtime/expiring"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

const (
	// stepPeriod is the least time between two steps of a rollout, so that Machines that become available one after the
	// other are one step and not many.
	stepPeriod = time.Second
	// unseenRetry is how soon to check again whether the cache shows the writes of this manager.
	unseenRetry = time.Second
	// deletionRequeue is how often a deletion that waits for others is checked, besides at their events.
	deletionRequeue = 10 * time.Second
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=create;delete

// Reconciler reconciles MachineDeployments. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, where a decision may not be based on the cache.
	Live      client.Reader
	Templates *contract.Templates
	Guard     *safety.Guard
	Events    events.EventRecorder
	Clock     clock.PassiveClock

	watch        predicates.WatchFilter
	tracker      *expectation.Tracker
	writes       *expectation.Writes
	statusWriter *statuswriter.Writer
	looks        coalesce.ResyncLimiter
	backoff      *backoff.Limiter
	steps        *expiring.Limiter[types.UID]
	refused      expiring.Map[types.UID, refusal]
}

// state is what a reconcile has read of one MachineDeployment.
type state struct {
	deployment *clusterv1.MachineDeployment
	cluster    *clusterv1.Cluster
	sets       []*clusterv1.MachineSet
	machines   []*clusterv1.Machine
	decision   rollout.Decision
	freeze     freeze.Decision
	// deadline is how long the rollout may make no progress; 0 is no limit.
	deadline time.Duration
	// rolloutBlocked is why no MachineSet of a new template may be created, and none may replace another; empty if nothing
	// blocks it.
	rolloutBlocked string
	// missingTemplate is which template new Machines cannot be created from; empty if none is known to be missing.
	missingTemplate string
	// blocked is why the MachineSets cannot be reconciled.
	blocked error
	// notApplied is why an action of the decision cannot be applied, as was found out now or a moment ago.
	notApplied error
	// stalled is the same for an action without which the rollout does not continue.
	stalled error
	// notPropagated is why the current MachineSet did not get all of what changes in place. The rollout continues.
	notPropagated error
}

// Register adds the controller to the manager, with all watches that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.tracker, r.writes = watch, &expectation.Tracker{Clock: r.Clock}, &expectation.Writes{Clock: r.Clock}
	r.statusWriter, r.looks.Clock, r.backoff = statuswriter.New(r.Client, r.Clock), r.Clock, backoff.NewLimiter()
	r.steps, r.refused.Clock, r.refused.TTL = &expiring.Limiter[types.UID]{Clock: r.Clock, Period: stepPeriod}, r.Clock, safety.RetryPeriod
	children := builder.WithPredicates(watch.ChildPredicate())
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineDeployment{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineSet{}, coalesce.Controller("MachineDeployment"), children).
		Watches(&clusterv1.Machine{}, coalesce.Map(deploymentOfMachine), children).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.deploymentsOfCluster), builder.WithPredicates(clusterpredicate.StateChanged())).
		WithOptions(r.backoff.Options(options)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machinedeployment controller: %w", err)
	}
	return nil
}

// Reconcile brings one MachineDeployment in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, md *clusterv1.MachineDeployment) (reconcile.Result, error) {
	before := md.DeepCopy()
	ctx, cluster, err := machineowner.Observe(ctx, r.Client, md.Namespace, md.Spec.ClusterName)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &state{deployment: md, cluster: cluster}
	if predicates.Paused(s.cluster, md) {
		return r.reconcilePaused(ctx, before, s)
	}
	if due := r.looks.Remaining(md.UID); due > 0 {
		return r.backoff.Postpone(md, due)
	}
	if err := r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	r.looks.MarkReconciled(md.UID, len(s.machines))
	if !md.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, before, s)
	}
	if s.cluster.UID == "" {
		machineowner.SetClusterMissing(md, clusterv1.MachineDeploymentAvailableCondition, clusterv1.MachineDeploymentAvailableInternalErrorReason, md.Spec.ClusterName)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, md))
	}
	if err := r.rollBack(ctx, s); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(err)
	}
	if err := r.defaultReplicas(ctx, s); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(err)
	}
	if err := r.observeRolloutBlocked(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if gone, err := ownership.Gone(ctx, r.Live, md.OwnerReferences, s.cluster); err != nil || gone {
		return reconcile.Result{RequeueAfter: unseenRetry}, err
	}
	before = md.DeepCopy()
	setMetadata(s, r.Clock.Now())
	if err := r.freeze(ctx, before, s); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(err)
	}
	result, err := r.rollOut(ctx, s)
	again, statusErr := r.writeStatus(ctx, before, s, err)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}

// rollOut decides what to do about the MachineSets, and does it.
func (r *Reconciler) rollOut(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.blocked = predicates.CheckNoneForeign(r.watch, "MachineSet", s.sets); s.blocked != nil {
		return reconcile.Result{RequeueAfter: deletionRequeue}, nil //nolint:nilerr // it is in a condition; no plan is right without all MachineSets
	}
	s.notApplied, s.stalled = r.lastRefusal(s.deployment)
	if r.countUnseen(ctx, s) > 0 {
		return reconcile.Result{RequeueAfter: unseenRetry}, nil
	}
	if err := r.propagateToSets(ctx, s); err != nil {
		return retryPropagation(ctx, err)
	}
	state, err := rollout.Observe(rollout.Observation{
		Deployment:   s.deployment,
		Sets:         s.sets,
		Machines:     s.machines,
		Unseen:       r.unseenSets(s.sets),
		Blocked:      s.rolloutBlocked,
		HistoryLimit: historyLimit(s.deployment),
		Now:          r.Clock.Now(),
	})
	if err != nil {
		s.blocked = err
		return reconcile.Result{}, nil //nolint:nilerr // it is in a condition; only a new spec can help
	}
	if observed, err := r.deleteAnnotationsObserved(ctx, s, state); err != nil || !observed {
		return reconcile.Result{RequeueAfter: coalesce.Window}, err
	}
	s.decision = rollout.Plan(state)
	if len(s.decision.Actions) == 0 {
		if wait := s.decision.Wait; wait.On != "" {
			ctrl.LoggerFrom(ctx).V(1).Info("rollout is waiting", "reason", string(wait.On), "message", wait.Message)
		}
		if len(state.Unseen) == 0 {
			s.notApplied, s.stalled = nil, nil // what could not be applied is not wanted any more
			r.refused.Delete(s.deployment.UID)
		}
		return r.nextRequeue(s), nil
	}
	if s.skipRefused(); len(s.decision.Actions) == 0 {
		return r.nextRequeue(s), nil
	}
	if due := r.steps.Remaining(s.deployment.UID); due > 0 {
		return results.Earliest(r.nextRequeue(s), reconcile.Result{RequeueAfter: due}), nil
	}
	if current, err := r.mayLower(ctx, s); err != nil || !current {
		return reconcile.Result{RequeueAfter: coalesce.Window}, err
	}
	r.steps.Mark(s.deployment.UID)
	err = r.applyAll(ctx, s)
	return r.nextRequeue(s), err
}

// applyAll does the actions of the decision, and remembers the first that is refused.
func (r *Reconciler) applyAll(ctx context.Context, s *state) error {
	var errs []error
	applied, going := s.notApplied == nil, s.stalled == nil
	for _, action := range s.decision.Actions {
		err := r.apply(ctx, s, action)
		if results.IsRefused(err) {
			s.setNotApplied(action.Kind, err)
		}
		errs = append(errs, err)
	}
	if applied && s.notApplied != nil || going && s.stalled != nil {
		r.refused.Set(s.deployment.UID, refusal{s.deployment.Generation, s.notApplied, s.stalled})
	}
	return kerrors.NewAggregate(errs)
}

// deleteAnnotationsObserved reports whether a decrease of replicas, if this is one, may be planned yet.
func (r *Reconciler) deleteAnnotationsObserved(ctx context.Context, s *state, state rollout.State) (bool, error) {
	for _, set := range state.Sets {
		if set.Recorded.Desired > state.Replicas && !set.Empty() {
			return expectation.DeleteAnnotationsObserved(ctx, r.Live, s.machines, client.InNamespace(s.deployment.Namespace),
				client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: s.deployment.Name})
		}
	}
	return true, nil
}

// mayLower reports whether the decision, if it lowers a MachineSet, was made for the spec that the API server has. The cache
// of a new leader may show an older MachineDeployment and MachineSets that have followed a newer one already, since each of
// its lists may come from another API server.
func (r *Reconciler) mayLower(ctx context.Context, s *state) (bool, error) {
	if !slices.ContainsFunc(s.decision.Actions, func(i rollout.Action) bool { return i.Kind == rollout.Scale && i.To < i.From }) {
		return true, nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.deployment), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.UID == s.deployment.UID && live.Generation == s.deployment.Generation, nil
}

// nextRequeue is when time alone, or a write of this manager that the cache does not show yet, changes the decision.
func (r *Reconciler) nextRequeue(s *state) reconcile.Result {
	var result reconcile.Result
	switch s.decision.Wait.On {
	case rollout.WaitingForCache:
		result.RequeueAfter = unseenRetry
	case rollout.WaitBlocked:
		result.RequeueAfter = safety.RetryPeriod
	}
	if s.notApplied != nil || s.notPropagated != nil { // the API server may accept later what it has refused
		result = results.Earliest(result, reconcile.Result{RequeueAfter: safety.RetryPeriod})
	}
	if again := s.freeze.RequeueAfter; again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	if left := s.untilOverdue(r.Clock.Now()); left > 0 && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
		result.RequeueAfter = left
	}
	if after := s.deployment.Spec.Rollout.After; !after.IsZero() {
		if left := after.Sub(r.Clock.Now()); left > 0 && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
			result.RequeueAfter = left
		}
	}
	return result
}

// reconcilePaused keeps the counters of a paused deployment current: the last ones may not have been written yet, and the
// MachineSets still change. Nothing else is done.
func (r *Reconciler) reconcilePaused(ctx context.Context, before *clusterv1.MachineDeployment, s *state) (reconcile.Result, error) {
	var err error
	if s.sets, err = index.MachineSetsOf(ctx, r.Client, s.deployment.Namespace, s.deployment.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(s, r.Clock.Now())
	conditions.Set(s.deployment, predicates.PausedCondition(s.cluster, s.deployment, "MachineDeployment"))
	again, err := r.statusWriter.Write(ctx, before, s.deployment, urgent(before, s.deployment))
	return again, results.IgnoreNotFoundOrConflict(err)
}

// finalize deletes every MachineSet, and removes the finalizer after the last. A MachineDeployment that is deleted with
// --cascade=orphan leaves its MachineSets: the garbage collector removes the owner reference from them before the
// MachineDeployment is gone. Without the finalizer nothing is deleted: that may have happened already, and the cache does
// not show it yet.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineDeployment, s *state) (reconcile.Result, error) {
	if controllerutil.ContainsFinalizer(s.deployment, metav1.FinalizerOrphanDependents) {
		return reconcile.Result{}, r.removeFinalizer(ctx, before, s, "Orphan")
	}
	if !controllerutil.ContainsFinalizer(s.deployment, clusterv1.MachineDeploymentFinalizer) {
		return reconcile.Result{}, nil
	}
	if r.countUnseen(ctx, s) == 0 && len(s.sets) == 0 {
		return reconcile.Result{}, r.removeFinalizer(ctx, before, s, "NoMachineSetsLeft")
	}
	slices.SortFunc(s.sets, byName) // so that one refusal of several is named
	s.blocked = predicates.CheckNoneForeign(r.watch, "MachineSet", s.sets)
	var errs []error
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() && !r.watch.Foreign(set) {
			errs = append(errs, r.deleteIfUnchanged(ctx, s.deployment.UID, set, "MachineDeploymentDeleted")) // it may have been released
		}
	}
	failed := kerrors.NewAggregate(errs)
	if refusal := results.Refusal(failed); refusal != "" && s.blocked == nil {
		s.blocked = errors.New(refusal)
	}
	retry, failure := safety.RetryRefused(ctx, failed)
	again, err := r.writeStatus(ctx, before, s, failure)
	if err := kerrors.NewAggregate([]error{failure, err}); err != nil {
		return reconcile.Result{}, err
	}
	if retry.RequeueAfter == 0 {
		retry.RequeueAfter = deletionRequeue
	}
	return results.Earliest(retry, again), nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, before *clusterv1.MachineDeployment, s *state, reason string) error {
	r.tracker.Drop(s.deployment.UID)
	if !controllerutil.RemoveFinalizer(s.deployment, clusterv1.MachineDeploymentFinalizer) {
		return nil
	}
	if err := patch.Main(ctx, r.Client, before, s.deployment); err != nil {
		return results.IgnoreNotFoundOrConflict(err)
	}
	ctrl.LoggerFrom(ctx).Info("removed finalizer from MachineDeployment", "reason", reason)
	return nil
}
