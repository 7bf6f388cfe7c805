// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machineset reconciles MachineSets: it keeps as many Machines as asked for, gives
// birth to them together with their bootstrap and infrastructure objects, picks those to
// delete, carries what a template changes in place to its Machines, and counts. It does not
// look at clouds or Nodes; the machine controller reports what became of each Machine.
package machineset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	"drover.io/machine-controller/internal/clusterevents"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/ownerref"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// deletionRequeue is how often a deletion that waits for others is looked at, besides at their events.
const deletionRequeue = 10 * time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets;machinesets/status;machinesets/finalizers,verbs=get;list;watch;create;update;patch;delete

// Reconciler reconciles MachineSets. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads the API server itself, where the cache could be older than a decision may rest on.
	Live      client.Reader
	Templates *contract.Templates
	Guard     *safety.Guard
	Workloads *workload.Connections
	Events    events.EventRecorder
	Clock     clock.PassiveClock

	watch        predicates.WatchFilter
	creator      *machineCreator
	tracker      *expectation.Tracker
	statusWriter *statuswriter.Writer
	looks        coalesce.ResyncLimiter
}

// state is one MachineSet with its Machines, and what hinders it.
type state struct {
	set      *clusterv1.MachineSet
	cluster  *clusterv1.Cluster
	machines []*clusterv1.Machine
	// born counts the Machines that this reconcile has added, which machines does not show.
	created int
	// blocked is why Machines that are missing cannot be created.
	blocked error
	// scaleDownBlocked is why surplus Machines are not deleted; empty when nothing keeps them.
	scaleDownBlocked string
	freeze           freeze.Decision
}

// Register adds the controller to the manager, with everything that can wake a MachineSet.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.tracker = watch, &expectation.Tracker{Clock: r.Clock}
	r.statusWriter, r.looks.Clock = statuswriter.New(r.Client, r.Clock), r.Clock
	r.creator = &machineCreator{client: r.Client, templates: r.Templates, tracker: r.tracker}
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineSet{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.Machine{}, coalesce.Controller("MachineSet"), builder.WithPredicates(watch.ChildPredicate())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.setsForUncontrolledMachine), builder.WithPredicates(watch.MatchingPredicate(), uncontrolledMachines())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.setsOfCluster), builder.WithPredicates(clusterevents.StateChanged())).
		WatchesRawSource(r.Workloads.ClusterEvents(r.setsOfConnection)).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machineset controller: %w", err)
	}
	return nil
}

// Reconcile brings one MachineSet forward.
func (r *Reconciler) Reconcile(ctx context.Context, set *clusterv1.MachineSet) (reconcile.Result, error) {
	before := set.DeepCopy()
	s := &state{set: set, cluster: &clusterv1.Cluster{}}
	key := client.ObjectKey{Namespace: set.Namespace, Name: set.Spec.ClusterName}
	if err := r.Client.Get(ctx, key, s.cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", key.Name, err)
	}
	if predicates.Paused(s.cluster, set) {
		return r.reconcilePaused(ctx, before, s)
	}
	if !set.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, before, s)
	}
	if s.cluster.UID == "" {
		setClusterMissing(set)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, set))
	}
	if metav1.GetControllerOfNoCopy(set) == nil {
		if gone, err := ownerref.Gone(ctx, r.Live, set.OwnerReferences, s.cluster); err != nil || gone {
			return reconcile.Result{RequeueAfter: time.Second}, err
		}
	}
	ensureMetadata(s)
	if err := patch.Main(ctx, r.Client, before, set); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineSet: %w", err))
	}
	if due := r.looks.Remaining(set.UID); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	var err error
	if s.machines, err = r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err // what was counted before stands
	}
	r.looks.MarkReconciled(set.UID, len(s.machines))
	result, err := r.reconcile(ctx, s)
	again, statusErr := r.writeStatus(ctx, before, s)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}

// reconcile mends the Machines, and creates or deletes some.
func (r *Reconciler) reconcile(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.blocked = predicates.CheckNoneForeign(r.watch, "Machine", s.machines); s.blocked != nil {
		return reconcile.Result{RequeueAfter: deletionRequeue}, nil //nolint:nilerr // it is in a condition; no count is right for some of the Machines only
	}
	fresh, err := r.cacheCurrent(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	more, spreadErr := r.propagateToMachines(ctx, s)
	errs := []error{r.freeze(ctx, s), spreadErr, r.createMissingChildren(ctx, s)}
	if !fresh {
		return reconcile.Result{RequeueAfter: time.Second}, kerrors.NewAggregate(errs)
	}
	acted, wake, err := r.remediate(ctx, s)
	if wake = results.Earliest(wake, more); acted || err != nil {
		return wake, kerrors.NewAggregate(append(errs, err))
	}
	result, err := r.scale(ctx, s)
	return results.Earliest(results.Earliest(wake, result), reconcile.Result{RequeueAfter: s.freeze.RequeueAfter}), kerrors.NewAggregate(append(errs, err))
}

// finalize deletes every Machine and lets the MachineSet go after the last. One that is
// deleted with --cascade=orphan leaves its Machines: the garbage collector takes the owner
// reference off them before it lets the MachineSet go. Without the finalizer nothing is
// deleted, since that may have happened already and not be seen yet.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineSet, s *state) (reconcile.Result, error) {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		r.tracker.Drop(s.set.UID)
		controllerutil.RemoveFinalizer(s.set, clusterv1.MachineSetFinalizer)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Main(ctx, r.Client, before, s.set))
	}
	if !controllerutil.ContainsFinalizer(s.set, clusterv1.MachineSetFinalizer) {
		return reconcile.Result{}, nil
	}
	var err error
	s.machines, err = index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	fresh, err := r.cacheCurrent(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(s.machines) == 0 && fresh {
		r.tracker.Drop(s.set.UID)
		controllerutil.RemoveFinalizer(s.set, clusterv1.MachineSetFinalizer)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Main(ctx, r.Client, before, s.set))
	}
	s.blocked = predicates.CheckNoneForeign(r.watch, "Machine", s.machines)
	failed := r.inParallel(s.machines, func(m *clusterv1.Machine) error {
		_, err := r.deleteIfUnchanged(ctx, s.set, m)
		return err
	})
	again, err := r.writeStatus(ctx, before, s)
	if err := kerrors.NewAggregate([]error{failed, err}); err != nil {
		return reconcile.Result{}, err
	}
	if !fresh {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return results.Earliest(again, reconcile.Result{RequeueAfter: deletionRequeue}), nil
}

// createMissingChildren makes the objects that a crash between two writes, or a person, left a Machine
// without, as long as the Machine still waits for them.
func (r *Reconciler) createMissingChildren(ctx context.Context, s *state) error {
	var waiting []*clusterv1.Machine
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() && lacksChildren(m) {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	from, err := r.creator.readTemplates(ctx, s)
	if err != nil {
		s.blocked = err
		return ignoreMisconfigured(err)
	}
	var errs []error
	for _, m := range waiting {
		errs = append(errs, r.creator.createChildren(ctx, s.set, m, from.needed(m)))
	}
	return kerrors.NewAggregate(errs)
}

// ignoreMisconfigured drops the errors that a person has to mend, once they are in a condition.
func ignoreMisconfigured(err error) error {
	if apierrors.IsNotFound(err) || contract.IsMisconfigured(err) {
		return nil
	}
	return err
}
