// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machineset reconciles MachineSets: it keeps as many Machines as spec.replicas, creates them together with their
// bootstrap and infrastructure objects, selects those to delete, propagates to them what a template changes in place, and
// counts them. It does not access clouds or Nodes; the machine controller reports the state of each Machine.
package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
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
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/machineset/deletion"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/selectorcache"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

const (
	// unseenRetry is how soon to check again whether the cache shows the writes of this manager.
	unseenRetry = time.Second
	// deletionRequeue is how often a deletion that waits for others is checked, besides at their events.
	deletionRequeue = 10 * time.Second
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets/finalizers,verbs=update

// Reconciler reconciles MachineSets. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, where a decision may not be based on the cache.
	Live      client.Reader
	Templates *contract.Templates
	Guard     *safety.Guard
	Workloads *workload.Connections
	Events    events.EventRecorder
	Clock     clock.PassiveClock

	watch        predicates.WatchFilter
	creator      *creation.Creator
	tracker      *expectation.Tracker
	statusWriter *statuswriter.Writer
	looks        coalesce.ResyncLimiter
	backoff      *backoff.Limiter
	deleter      *deletion.Deleter
	selectors    selectorcache.Cache
	phases       []phase
}

// state is what a reconcile has read of one MachineSet.
type state struct {
	set      *clusterv1.MachineSet
	cluster  *clusterv1.Cluster
	machines []*clusterv1.Machine
	// checkSelectors are those of the health checks of the Cluster; nil until a phase reads them.
	checkSelectors []labels.Selector
	// created counts the Machines that this reconcile has created, which are not in machines.
	created int
	// cacheCurrent is whether machines shows every write of this manager.
	cacheCurrent bool
	// remediated is whether Machines were deleted to be replaced, or may have been.
	remediated bool
	// blocked is why missing Machines cannot be created, or Machines not be reconciled at all.
	blocked error
	// passes means that blocked ends by itself, as Machines on their way join or the control plane has been upgraded.
	passes bool
	// scaleDownBlocked is why surplus Machines are not deleted; empty if nothing blocks it.
	scaleDownBlocked string
	freeze           freeze.Decision
}

// A phase brings one aspect of the Machines of a set in line with its spec. An error does not keep the later ones from
// running.
type phase interface {
	run(ctx context.Context, s *state) (reconcile.Result, error)
}

// Register adds the controller to the manager, with all watches that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.backoff = watch, backoff.NewLimiter()
	r.setUp()
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineSet{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.Machine{}, coalesce.Controller("MachineSet"), builder.WithPredicates(watch.ChildPredicate())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.setsForUncontrolledMachine), builder.WithPredicates(watch.MatchingPredicate(), uncontrolledMachines())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.setsOfCluster), builder.WithPredicates(clusterpredicate.StateChanged())).
		WatchesRawSource(r.Workloads.ClusterEvents(r.setsOfConnection)).
		WithOptions(r.backoff.Options(options)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machineset controller: %w", err)
	}
	return nil
}

// setUp lists the phases, in order.
func (r *Reconciler) setUp() {
	r.tracker = &expectation.Tracker{Clock: r.Clock}
	r.statusWriter, r.looks.Clock = statuswriter.New(r.Client, r.Clock), r.Clock
	r.creator = &creation.Creator{Client: r.Client, Templates: r.Templates, Tracker: r.tracker}
	r.deleter = &deletion.Deleter{Client: r.Client, Tracker: r.tracker, Watch: r.watch}
	preflight := &preflighter{r.Templates}
	r.phases = []phase{
		&propagator{&inplace.Updater{Client: r.Client, Live: r.Live, Resolver: r.Templates.Resolver, Watch: r.watch}}, // Machines have what changes in place
		&freezer{machineowner.Freezer{Client: r.Client, Guard: r.Guard, Events: r.Events}},                            // no more are created while there are too many
		&repairer{r.creator}, // Machines have the children that they lack
		&remediator{r.Client, r.Live, r.Guard, r.creator, preflight, r.deleter, r.Events, r.Clock, newRefusals(r.Clock), &health.Selectors{}, r.watch}, // unhealthy ones are replaced within the budget
		&scaler{r.Client, r.Live, r.Guard, r.creator, preflight, r.deleter, r.Events},                                                                  // there are as many as spec.replicas
	}
}

// Reconcile brings one MachineSet in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, set *clusterv1.MachineSet) (reconcile.Result, error) {
	before := set.DeepCopy()
	ctx, cluster, err := machineowner.Observe(ctx, r.Client, set.Namespace, set.Spec.ClusterName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(owner.Kind, klog.KRef(set.Namespace, owner.Name)))
	}
	s := &state{set: set, cluster: cluster}
	switch {
	case predicates.Paused(cluster, set):
		return r.reconcilePaused(ctx, before, s)
	case !set.DeletionTimestamp.IsZero():
		return r.finalize(ctx, before, s)
	case cluster.UID == "":
		machineowner.SetClusterMissing(set, clusterv1.MachineSetScalingUpCondition, clusterv1.MachineSetScalingUpInternalErrorReason, set.Spec.ClusterName)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, set))
	}
	if metav1.GetControllerOfNoCopy(set) == nil {
		if gone, err := ownership.Gone(ctx, r.Live, set.OwnerReferences, cluster); err != nil || gone {
			return reconcile.Result{RequeueAfter: unseenRetry}, err
		}
	}
	setMetadata(s)
	if err := patch.Main(ctx, r.Client, before, set); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineSet: %w", err))
	}
	if due := r.looks.Remaining(set.UID); due > 0 {
		return r.backoff.Postpone(set, due)
	}
	if s.machines, err = r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err // the status keeps the last counts
	}
	r.looks.MarkReconciled(set.UID, len(s.machines))
	result, err := r.reconcile(ctx, s)
	next, statusErr := r.writeStatus(ctx, before, s, err)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, next), nil
}

// reconcile runs the phases, unless one of the Machines belongs to another manager: no count is right without it.
func (r *Reconciler) reconcile(ctx context.Context, s *state) (reconcile.Result, error) {
	if s.blocked = predicates.CheckNoneForeign(r.watch, "Machine", s.machines); s.blocked != nil {
		s.scaleDownBlocked = s.blocked.Error()
		return reconcile.Result{RequeueAfter: deletionRequeue}, nil //nolint:nilerr // it is in a condition
	}
	var err error
	if s.cacheCurrent, err = r.cacheCurrent(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var errs []error
	for _, phase := range r.phases {
		next, err := phase.run(ctx, s)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	if !s.cacheCurrent {
		result = results.Earliest(result, reconcile.Result{RequeueAfter: unseenRetry})
	}
	return result, kerrors.NewAggregate(errs)
}

// reconcilePaused keeps the counters of a paused set current: the last ones may not have been written yet, and the Machines
// still change. Nothing else is done.
func (r *Reconciler) reconcilePaused(ctx context.Context, before *clusterv1.MachineSet, s *state) (reconcile.Result, error) {
	var err error
	if s.machines, err = index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID); err != nil {
		return reconcile.Result{}, err
	}
	setCounts(s)
	conditions.Set(s.set, predicates.PausedCondition(s.cluster, s.set, "MachineSet"))
	result, err := r.statusWriter.Write(ctx, before, s.set, urgent(before, s.set))
	return result, results.IgnoreNotFoundOrConflict(err)
}

// finalize deletes every Machine, and removes the finalizer after the last. A set that is deleted with --cascade=orphan
// leaves its Machines: the garbage collector removes the owner reference from them before the set is gone. Without the
// finalizer nothing is deleted: that may have happened already, and the cache does not show it yet.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineSet, s *state) (reconcile.Result, error) {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		return reconcile.Result{}, r.removeFinalizer(ctx, before, s, "Orphan")
	}
	if !controllerutil.ContainsFinalizer(s.set, clusterv1.MachineSetFinalizer) {
		return reconcile.Result{}, nil
	}
	var err error
	if s.machines, err = index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID); err != nil {
		return reconcile.Result{}, err
	}
	if s.cacheCurrent, err = r.cacheCurrent(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if len(s.machines) == 0 && s.cacheCurrent {
		return reconcile.Result{}, r.removeFinalizer(ctx, before, s, "NoMachinesLeft")
	}
	slices.SortFunc(s.machines, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) }) // so that one refusal of several is named
	s.blocked = predicates.CheckNoneForeign(r.watch, "Machine", s.machines)
	failed := deletion.InParallel(s.machines, func(m *clusterv1.Machine) error {
		_, err := r.deleter.DeleteIfUnchanged(ctx, s.set, m, deletion.ReasonSetDeleted)
		return err
	})
	if refusal := results.Refusal(failed); refusal != "" && s.blocked == nil {
		s.blocked = errors.New(refusal)
	}
	if s.blocked != nil {
		s.scaleDownBlocked = s.blocked.Error()
	}
	retry, failure := safety.RetryRefused(ctx, failed)
	next, err := r.writeStatus(ctx, before, s, failure)
	if err := kerrors.NewAggregate([]error{failure, err}); err != nil {
		return reconcile.Result{}, err
	}
	if !s.cacheCurrent {
		return reconcile.Result{RequeueAfter: unseenRetry}, nil
	}
	if retry.RequeueAfter == 0 {
		retry.RequeueAfter = deletionRequeue
	}
	return results.Earliest(retry, next), nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, before *clusterv1.MachineSet, s *state, reason string) error {
	r.tracker.Drop(s.set.UID)
	if !controllerutil.RemoveFinalizer(s.set, clusterv1.MachineSetFinalizer) {
		return nil
	}
	if err := patch.Main(ctx, r.Client, before, s.set); err != nil {
		return results.IgnoreNotFoundOrConflict(err)
	}
	ctrl.LoggerFrom(ctx).Info("removed finalizer from MachineSet", "reason", reason)
	return nil
}
