// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck reconciles MachineHealthChecks: it judges the Machines that a
// check selects by their Nodes and conditions, writes the verdicts into them, and asks for
// the replacement of as many unhealthy ones as trigger, zones and budgets allow. It deletes
// no Machine: their owner does, or a controller outside whose request it creates from a
// template. What is unhealthy, and who may be replaced, package health decides.
package machinehealthcheck

import (
	"context"
	"fmt"
	"time"

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/clusterevents"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

const (
	// unseenRetry is how soon to look again for writes of ours that the cache does not show.
	unseenRetry = time.Second
	// lookAgain is how often what no event tells of is looked at.
	lookAgain = 10 * time.Second
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks;machinehealthchecks/status;machinehealthchecks/finalizers,verbs=get;list;watch;update;patch

// Reconciler reconciles MachineHealthChecks. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads remediation templates and requests, which are not cached.
	Live      client.Reader
	Workloads *workload.Connections
	// Guard knows the replacement budgets, and since when the management cluster answers.
	Guard  *safety.Guard
	Events events.EventRecorder
	Clock  clock.PassiveClock

	watch  predicates.WatchFilter
	writes *expectation.Writes
}

// Register adds the controller to the manager, with everything that can wake a MachineHealthCheck.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.writes = watch, &expectation.Writes{Clock: r.Clock}
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineHealthCheck{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineHealthCheck{}, coalesce.Map(r.rivals), builder.WithPredicates(watch.MatchingPredicate(), predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Machine{}, coalesce.Map(r.checksOfMachine), builder.WithPredicates(watch.ChildPredicate(), telling())).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(r.checksOfDeployment), builder.WithPredicates(watch.ChildPredicate(), predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.checksOfCluster), builder.WithPredicates(clusterevents.StateChanged())).
		WatchesRawSource(aggregated(r.Workloads.NodeEvents(r.checksOfNode))).
		WatchesRawSource(r.Workloads.ClusterEvents(r.checksOfConnection)).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machinehealthcheck controller: %w", err)
	}
	return (&unmarker{r.Client, r.writes}).register(mgr, watch, options)
}

// Reconcile judges the Machines of one MachineHealthCheck.
func (r *Reconciler) Reconcile(ctx context.Context, check *clusterv1.MachineHealthCheck) (reconcile.Result, error) {
	before := check.DeepCopy()
	if !check.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // the unmarker takes care of its Machines
	}
	s := &ward{check: check, cluster: &clusterv1.Cluster{}}
	key := client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName}
	if err := r.Client.Get(ctx, key, s.cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", key.Name, err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(key.Namespace, key.Name))
	ctx = ctrl.LoggerInto(ctx, log)
	if predicates.Paused(s.cluster, check) {
		log.V(1).Info("skipped the paused MachineHealthCheck")
		conditions.Set(check, predicates.PausedCondition(s.cluster, check, "MachineHealthCheck"))
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, check))
	}
	if s.cluster.UID == "" {
		log.V(1).Info("waiting for the Cluster to exist")
		setClusterMissing(check)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, check))
	}
	own(s)
	if err := patch.Main(ctx, r.Client, before, check); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineHealthCheck: %w", err))
	}
	result, err := r.round(ctx, s)
	setStatus(s)
	report(r.Events, before, check)
	statusErr := patch.Status(ctx, r.Client, before, check)
	if statusErr == nil {
		logStatusWritten(ctx, before, check)
	}
	statusErr = results.IgnoreNotFoundOrConflict(statusErr)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// round gathers what is known, asks what to do, and does it. Nothing is done while the
// workload cluster cannot be seen, or the cache is older than our own last write.
func (r *Reconciler) round(ctx context.Context, s *ward) (reconcile.Result, error) {
	if err := r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if s.trouble != nil {
		return reconcile.Result{}, nil //nolint:nilerr // it is told in a condition; only a new spec can help
	}
	if r.behind(s.all) {
		s.stale = true
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the cache to show the last write", "after", unseenRetry)
		return reconcile.Result{RequeueAfter: unseenRetry}, nil
	}
	spared, err := r.spare(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !r.see(s) {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting to observe the Nodes of the workload cluster", "message", s.blind)
		return results.Earliest(spared, reconcile.Result{RequeueAfter: lookAgain}), nil
	}
	decide(s, r.Clock.Now())
	wake, err := r.admit(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.treat(ctx, s)
	result = results.Earliest(results.Earliest(result, wake), spared)
	if at := s.decision.Next; !at.IsZero() {
		result = results.Earliest(result, reconcile.Result{RequeueAfter: max(at.Sub(r.Clock.Now()), time.Millisecond)})
	}
	return result, err
}
