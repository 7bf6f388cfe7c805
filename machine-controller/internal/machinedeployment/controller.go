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
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/filter"
	"drover.io/machine-controller/internal/marks"
	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/safety"
)

// stepPeriod is the least time between two steps of a rollout, so that Machines that become available
// one after the other are one step and not many.
const stepPeriod = time.Second

// unseenRetry is how soon to look again for our own writes in the cache.
const unseenRetry = time.Second

// lookAgain is how often a deletion that waits for others is looked at, besides at their events.
const lookAgain = 10 * time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinedeployments/status;machinedeployments/finalizers,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=create;delete

// Reconciler reconciles MachineDeployments. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads the API server itself.
	Live   client.Reader
	Guard  *safety.Guard
	Events events.EventRecorder
	Clock  clock.PassiveClock

	tracker *expectation.Tracker
	writes  *expectation.Writes
	teller  *coalesce.Teller
	looks   coalesce.Looks
	steps   *coalesce.Pace
}

// fleet is one MachineDeployment with its MachineSets and their Machines.
type fleet struct {
	deployment *clusterv1.MachineDeployment
	cluster    *clusterv1.Cluster
	sets       []*clusterv1.MachineSet
	machines   []*clusterv1.Machine
	decision   rollout.Decision
	frost      safety.Frost
	// deadline is how long the rollout may stand still; 0 is for ever.
	deadline time.Duration
	// trouble is why the rollout cannot be decided.
	trouble error
}

// Register adds the controller to the manager, with everything that can wake a MachineDeployment.
func (r *Reconciler) Register(mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	r.tracker, r.writes = &expectation.Tracker{Clock: r.Clock}, &expectation.Writes{Clock: r.Clock}
	r.teller, r.looks.Clock = coalesce.NewTeller(r.Client, r.Clock), r.Clock
	r.steps = &coalesce.Pace{Clock: r.Clock, Period: stepPeriod}
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineDeployment{}, builder.WithPredicates(filter.WatchLabel(watchFilter))).
		Watches(&clusterv1.MachineSet{}, coalesce.Controller("MachineDeployment")).
		Watches(&clusterv1.Machine{}, coalesce.Map(deploymentOfMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.deploymentsOfCluster), builder.WithPredicates(filter.ClusterTurns())).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("registering the machinedeployment controller: %w", err)
	}
	return nil
}

// Reconcile brings one MachineDeployment forward.
func (r *Reconciler) Reconcile(ctx context.Context, md *clusterv1.MachineDeployment) (reconcile.Result, error) {
	before := md.DeepCopy()
	f := &fleet{deployment: md, cluster: &clusterv1.Cluster{}}
	key := client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.ClusterName}
	if err := r.Client.Get(ctx, key, f.cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", key.Name, err)
	}
	if filter.Paused(f.cluster, md) {
		return r.rest(ctx, before, f)
	}
	if due := r.looks.Due(md.UID); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	if err := r.gather(ctx, f); err != nil {
		return reconcile.Result{}, err
	}
	r.looks.Took(md.UID, len(f.machines))
	if !md.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, before, f)
	}
	if f.cluster.UID == "" {
		setClusterMissing(md)
		return reconcile.Result{}, outcome.Settled(patch.Status(ctx, r.Client, before, md))
	}
	if err := r.undo(ctx, f); err != nil {
		return reconcile.Result{}, outcome.Settled(err)
	}
	before = md.DeepCopy()
	own(f, r.Clock.Now())
	if err := r.freeze(ctx, before, f); err != nil {
		return reconcile.Result{}, outcome.Settled(err)
	}
	result, err := r.roll(ctx, f)
	again, statusErr := r.tell(ctx, before, f)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return outcome.Sooner(result, again), nil
}

// roll asks what to do about the MachineSets, and does it.
func (r *Reconciler) roll(ctx context.Context, f *fleet) (reconcile.Result, error) {
	if unseen, doubtful := expectation.Unseen(r.tracker, f.deployment.UID, f.sets); unseen > 0 {
		r.resolve(ctx, f.deployment.UID, doubtful)
		return reconcile.Result{RequeueAfter: unseenRetry}, nil
	}
	if err := r.spread(ctx, f); err != nil {
		return reconcile.Result{}, err
	}
	state, err := rollout.Observe(rollout.Observation{
		Deployment:   f.deployment,
		Sets:         f.sets,
		Machines:     f.machines,
		Unseen:       r.unseen(f.sets),
		Hold:         r.hold(f),
		HistoryLimit: historyLimit(f.deployment),
		Now:          r.Clock.Now(),
	})
	if err != nil {
		f.trouble = err
		return reconcile.Result{}, nil //nolint:nilerr // it is told in a condition; only a new spec can help
	}
	if shown, err := r.marksShown(ctx, f, state); err != nil || !shown {
		return reconcile.Result{RequeueAfter: coalesce.Window}, err
	}
	f.decision = rollout.Plan(state)
	if len(f.decision.Intents) == 0 {
		return r.next(f), nil
	}
	if due := r.steps.Due(f.deployment.UID); due > 0 {
		return outcome.Sooner(r.next(f), reconcile.Result{RequeueAfter: due}), nil
	}
	r.steps.Took(f.deployment.UID)
	var errs []error
	for _, intent := range f.decision.Intents {
		errs = append(errs, r.apply(ctx, f, intent))
	}
	return r.next(f), kerrors.NewAggregate(errs)
}

// marksShown reports whether a decrease of replicas, if this is one, may be planned yet.
func (r *Reconciler) marksShown(ctx context.Context, f *fleet, state rollout.State) (bool, error) {
	for _, set := range state.Sets {
		if set.Recorded.Desired > state.Replicas {
			return marks.Shown(ctx, r.Live, f.machines, client.InNamespace(f.deployment.Namespace),
				client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: f.deployment.Name})
		}
	}
	return true, nil
}

// next is when time alone, or a write of ours that is not seen yet, changes the decision.
func (r *Reconciler) next(f *fleet) reconcile.Result {
	var result reconcile.Result
	switch f.decision.Wait.On {
	case rollout.WaitCache:
		result.RequeueAfter = unseenRetry
	case rollout.WaitHeld:
		result.RequeueAfter = safety.LookAgain
	}
	if again := f.frost.Again; again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	if left := f.untilOverdue(r.Clock.Now()); left > 0 && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
		result.RequeueAfter = left
	}
	if after := f.deployment.Spec.Rollout.After; !after.IsZero() {
		if left := after.Sub(r.Clock.Now()); left > 0 && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
			result.RequeueAfter = left
		}
	}
	return result
}

// finalize deletes every MachineSet and lets the MachineDeployment go after the last.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineDeployment, f *fleet) (reconcile.Result, error) {
	unseen, doubtful := expectation.Unseen(r.tracker, f.deployment.UID, f.sets)
	r.resolve(ctx, f.deployment.UID, doubtful)
	if len(f.sets) == 0 && unseen == 0 {
		r.tracker.Drop(f.deployment.UID)
		controllerutil.RemoveFinalizer(f.deployment, clusterv1.MachineDeploymentFinalizer)
		return reconcile.Result{}, outcome.Settled(patch.Main(ctx, r.Client, before, f.deployment))
	}
	var errs []error
	for _, set := range f.sets {
		if set.DeletionTimestamp.IsZero() {
			errs = append(errs, client.IgnoreNotFound(r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})))
		}
	}
	again, err := r.tell(ctx, before, f)
	if err := kerrors.NewAggregate(append(errs, err)); err != nil {
		return reconcile.Result{}, err
	}
	return outcome.Sooner(again, reconcile.Result{RequeueAfter: lookAgain}), nil
}

// own keeps the MachineDeployment's finalizer, its cluster label, the owner reference to
// its Cluster, its selector, and the annotations that others read.
func own(f *fleet, now time.Time) {
	md := f.deployment
	controllerutil.AddFinalizer(md, clusterv1.MachineDeploymentFinalizer)
	if md.Labels == nil {
		md.Labels = map[string]string{}
	}
	md.Labels[clusterv1.ClusterNameLabel] = md.Spec.ClusterName
	reference := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: f.cluster.Name, UID: f.cluster.UID}
	if !owns(md.OwnerReferences, reference.UID) {
		md.OwnerReferences = append(md.OwnerReferences, reference)
	}
	if md.Annotations == nil {
		md.Annotations = map[string]string{}
	}
	fillSelector(md)
	showLabels(md)
	current, olds := rollout.FindCurrent(md, f.sets, now)
	md.Annotations[clusterv1.RevisionAnnotation] = fmt.Sprint(rollout.NextRevision(current, olds))
}
