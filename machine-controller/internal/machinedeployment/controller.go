// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinedeployment reconciles MachineDeployments: it keeps one MachineSet per
// template, and moves replicas from old ones to the current one as package rollout decides.
// It gathers, asks and applies; the arithmetic of a rollout is not here, and neither are
// Machines: the MachineSets make and delete those.
package machinedeployment

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/clusterevents"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/ownerref"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/expiring"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// stepPeriod is the least time between two steps of a rollout, so that Machines that become available
// one after the other are one step and not many.
const stepPeriod = time.Second

// unseenRetry is how soon to look again for our own writes in the cache.
const unseenRetry = time.Second

// deletionRequeue is how often a deletion that waits for others is looked at, besides at their events.
const deletionRequeue = 10 * time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinedeployments/status;machinedeployments/finalizers,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=create;delete

// Reconciler reconciles MachineDeployments. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads the API server itself.
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
	steps        *expiring.Limiter[types.UID]
}

// state is one MachineDeployment with its MachineSets and their Machines.
type state struct {
	deployment *clusterv1.MachineDeployment
	cluster    *clusterv1.Cluster
	sets       []*clusterv1.MachineSet
	machines   []*clusterv1.Machine
	decision   rollout.Decision
	freeze     freeze.Decision
	// deadline is how long the rollout may stand still; 0 is for ever.
	deadline time.Duration
	// rolloutBlocked is why no MachineSet of a new template may be created, and none may replace another; empty if nothing is in the way.
	rolloutBlocked string
	// missingTemplate is which template new Machines cannot be made from; empty if nothing is known to be missing.
	missingTemplate string
	// blocked is why the rollout cannot be decided.
	blocked error
}

// Register adds the controller to the manager, with everything that can wake a MachineDeployment.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.tracker, r.writes = watch, &expectation.Tracker{Clock: r.Clock}, &expectation.Writes{Clock: r.Clock}
	r.statusWriter, r.looks.Clock = statuswriter.New(r.Client, r.Clock), r.Clock
	r.steps = &expiring.Limiter[types.UID]{Clock: r.Clock, Period: stepPeriod}
	children := builder.WithPredicates(watch.ChildPredicate())
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineDeployment{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineSet{}, coalesce.Controller("MachineDeployment"), children).
		Watches(&clusterv1.Machine{}, coalesce.Map(deploymentOfMachine), children).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.deploymentsOfCluster), builder.WithPredicates(clusterevents.StateChanged())).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machinedeployment controller: %w", err)
	}
	return nil
}

// Reconcile brings one MachineDeployment forward.
func (r *Reconciler) Reconcile(ctx context.Context, md *clusterv1.MachineDeployment) (reconcile.Result, error) {
	before := md.DeepCopy()
	s := &state{deployment: md, cluster: &clusterv1.Cluster{}}
	key := client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.ClusterName}
	if err := r.Client.Get(ctx, key, s.cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", key.Name, err)
	}
	if predicates.Paused(s.cluster, md) {
		return r.reconcilePaused(ctx, before, s)
	}
	if due := r.looks.Remaining(md.UID); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	if err := r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	r.looks.MarkReconciled(md.UID, len(s.machines))
	if !md.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, before, s)
	}
	if s.cluster.UID == "" {
		setClusterMissing(md)
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
	if gone, err := ownerref.Gone(ctx, r.Live, md.OwnerReferences, s.cluster); err != nil || gone {
		return reconcile.Result{RequeueAfter: unseenRetry}, err
	}
	before = md.DeepCopy()
	ensureMetadata(s, r.Clock.Now())
	if err := r.freeze(ctx, before, s); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(err)
	}
	result, err := r.rollOut(ctx, s)
	again, statusErr := r.writeStatus(ctx, before, s)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}

// rollOut asks what to do about the MachineSets, and does it.
func (r *Reconciler) rollOut(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.blocked = predicates.CheckNoneForeign(r.watch, "MachineSet", s.sets); s.blocked != nil {
		return reconcile.Result{RequeueAfter: deletionRequeue}, nil //nolint:nilerr // it is in a condition; no plan is right for some of the MachineSets only
	}
	if unseen, doubtful := expectation.Unseen(r.tracker, s.deployment.UID, s.sets); unseen > 0 {
		r.resolveUnseen(ctx, s.deployment.UID, doubtful)
		return reconcile.Result{RequeueAfter: unseenRetry}, nil
	}
	if err := r.propagateToSets(ctx, s); err != nil {
		return reconcile.Result{}, err
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
		return reconcile.Result{}, nil //nolint:nilerr // it is told in a condition; only a new spec can help
	}
	if shown, err := r.deleteAnnotationsObserved(ctx, s, state); err != nil || !shown {
		return reconcile.Result{RequeueAfter: coalesce.Window}, err
	}
	s.decision = rollout.Plan(state)
	if len(s.decision.Intents) == 0 {
		return r.nextRequeue(s), nil
	}
	if due := r.steps.Remaining(s.deployment.UID); due > 0 {
		return results.Earliest(r.nextRequeue(s), reconcile.Result{RequeueAfter: due}), nil
	}
	r.steps.Mark(s.deployment.UID)
	var errs []error
	for _, intent := range s.decision.Intents {
		errs = append(errs, r.apply(ctx, s, intent))
	}
	return r.nextRequeue(s), kerrors.NewAggregate(errs)
}

// deleteAnnotationsObserved reports whether a decrease of replicas, if this is one, may be planned yet.
func (r *Reconciler) deleteAnnotationsObserved(ctx context.Context, s *state, state rollout.State) (bool, error) {
	for _, set := range state.Sets {
		if set.Recorded.Desired > state.Replicas {
			return expectation.DeleteAnnotationsObserved(ctx, r.Live, s.machines, client.InNamespace(s.deployment.Namespace),
				client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: s.deployment.Name})
		}
	}
	return true, nil
}

// nextRequeue is when time alone, or a write of ours that is not seen yet, changes the decision.
func (r *Reconciler) nextRequeue(s *state) reconcile.Result {
	var result reconcile.Result
	switch s.decision.Wait.On {
	case rollout.WaitCache:
		result.RequeueAfter = unseenRetry
	case rollout.WaitBlocked:
		result.RequeueAfter = safety.RetryPeriod
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

// finalize deletes every MachineSet and lets the MachineDeployment go after the last. One that
// is deleted with --cascade=orphan leaves its MachineSets: the garbage collector takes the
// owner reference off them before it lets the MachineDeployment go. Without the finalizer
// nothing is deleted, since that may have happened already and not be seen yet.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineDeployment, s *state) (reconcile.Result, error) {
	if controllerutil.ContainsFinalizer(s.deployment, metav1.FinalizerOrphanDependents) {
		r.tracker.Drop(s.deployment.UID)
		controllerutil.RemoveFinalizer(s.deployment, clusterv1.MachineDeploymentFinalizer)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Main(ctx, r.Client, before, s.deployment))
	}
	if !controllerutil.ContainsFinalizer(s.deployment, clusterv1.MachineDeploymentFinalizer) {
		return reconcile.Result{}, nil
	}
	unseen, doubtful := expectation.Unseen(r.tracker, s.deployment.UID, s.sets)
	r.resolveUnseen(ctx, s.deployment.UID, doubtful)
	if len(s.sets) == 0 && unseen == 0 {
		r.tracker.Drop(s.deployment.UID)
		controllerutil.RemoveFinalizer(s.deployment, clusterv1.MachineDeploymentFinalizer)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Main(ctx, r.Client, before, s.deployment))
	}
	s.blocked = predicates.CheckNoneForeign(r.watch, "MachineSet", s.sets)
	var errs []error
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() && !r.watch.Foreign(set) {
			as := client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion} // it may be released meanwhile
			errs = append(errs, results.IgnoreNotFoundOrConflict(r.Client.Delete(ctx, set, as)))
		}
	}
	again, err := r.writeStatus(ctx, before, s)
	if err := kerrors.NewAggregate(append(errs, err)); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(again, reconcile.Result{RequeueAfter: deletionRequeue}), nil
}

// ensureMetadata keeps the MachineDeployment's finalizer, its cluster label, the owner reference to
// its Cluster, its selector, and the annotations that others read.
func ensureMetadata(s *state, now time.Time) {
	md := s.deployment
	controllerutil.AddFinalizer(md, clusterv1.MachineDeploymentFinalizer)
	if md.Labels == nil {
		md.Labels = map[string]string{}
	}
	md.Labels[clusterv1.ClusterNameLabel] = md.Spec.ClusterName
	reference := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID}
	if !hasOwner(md.OwnerReferences, reference.UID) {
		md.OwnerReferences = append(md.OwnerReferences, reference)
	}
	if md.Annotations == nil {
		md.Annotations = map[string]string{}
	}
	fillSelector(md)
	setCapacityLabels(md)
	current, olds := revision.FindCurrent(md, s.sets, now)
	if current == nil && (s.rolloutBlocked != "" || ptr.Deref(md.Spec.Paused, false)) {
		return // a new revision begins with its MachineSet: until then no Node is of an outdated one
	}
	md.Annotations[clusterv1.RevisionAnnotation] = fmt.Sprint(revision.Next(current, olds))
}
