// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck reconciles MachineHealthChecks: it evaluates the Machines that a check
// selects by their Nodes and conditions, writes the findings to their conditions, and marks as many
// unhealthy ones for remediation as trigger, zones and budgets allow. It deletes no Machine: their
// owner does, or an external controller for which package external creates a request. Package health
// decides what is unhealthy, and what may be remediated.
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

	"drover.io/machine-controller/internal/clusterpredicate"
	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/machinehealthcheck/unmark"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

const (
	// staleCacheRetry is how long to wait at most until the cache shows the last write of this process.
	staleCacheRetry = time.Second
	// recheckPeriod is how often what triggers no reconcile is checked again.
	recheckPeriod = 10 * time.Second
	// templateRetry is how often a remediation template that does not exist is read again.
	templateRetry = 30 * time.Second
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks/finalizers,verbs=update

// Reconciler reconciles MachineHealthChecks. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: remediation templates and requests, which are not cached, and whether the Cluster exists.
	Live      client.Reader
	Workloads *workload.Connections
	// Guard has the replacement budgets, and since when the management cluster answers.
	Guard  *safety.Guard
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Workers is how many MachineHealthChecks are reconciled at once; those of a namespace get half of them.
	Workers int

	watch     predicates.WatchFilter
	writes    *expectation.Writes
	selectors health.Selectors
	looks     coalesce.ResyncLimiter
	fairShare *fairshare.Gate
	backoff   *backoff.Limiter
	phases    []phase
}

// A phase reconciles one aspect of a MachineHealthCheck. It may change the state, and of the API it writes only the
// conditions of Machines and remediation requests.
type phase interface {
	run(ctx context.Context, s *state) (reconcile.Result, error)
}

// Register adds the controller to the manager, with all events that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.writes, r.looks.Clock = watch, &expectation.Writes{Clock: r.Clock}, r.Clock
	r.fairShare, r.backoff = fairshare.NewGate(r.Workers, r.Clock), backoff.NewLimiter()
	r.setPhases()
	selectionChanged := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}) // a new label can be that of another manager
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineHealthCheck{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineHealthCheck{}, coalesce.Map(r.otherChecks), builder.WithPredicates(selectionChanged)).
		Watches(&clusterv1.Machine{}, coalesce.Map(r.checksOfMachine), builder.WithPredicates(watch.ChildPredicate(), healthInputChanged())).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(r.checksOfDeployment), builder.WithPredicates(watch.ChildPredicate(), predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.checksOfCluster), builder.WithPredicates(predicate.Or(clusterpredicate.StateChanged(), clusterReadyChanged()))).
		WatchesRawSource(aggregated(r.Workloads.NodeEvents(r.checksOfNode))).
		WatchesRawSource(r.Workloads.ClusterEvents(r.checksOfConnection)).
		WithOptions(r.backoff.Options(options)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machinehealthcheck controller: %w", err)
	}
	return (&unmark.Reconciler{Client: r.Client, Writes: r.writes, Selectors: &r.selectors, Watch: watch}).Register(mgr, options)
}

// setPhases lists the phases of a MachineHealthCheck, in order.
func (r *Reconciler) setPhases() {
	writer := machineWriter{r.Client, r.Live, r.Events, r.writes}
	r.phases = []phase{
		exemption{writer},           // exempt Machines have no conditions of a health check
		nodes{r.Workloads, r.Guard}, // the Nodes of the targets are observed
		evaluation{r.Clock},         // it is decided which targets are unhealthy, and which may be remediated
		admission{r.Guard},          // no freeze, outage or wider budget forbids an external remediation
		remediation{writer},         // findings are written, and Machines marked for remediation
	}
}

// Reconcile evaluates the Machines of one MachineHealthCheck.
func (r *Reconciler) Reconcile(ctx context.Context, check *clusterv1.MachineHealthCheck) (reconcile.Result, error) {
	before := check.DeepCopy()
	if !check.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // package unmark handles its Machines
	}
	leave, retryAfter := r.fairShare.Enter(check.Namespace, check.Name)
	if leave == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for a worker of the namespace", "after", retryAfter)
		return r.backoff.Postpone(check, retryAfter)
	}
	defer leave()
	s := &state{check: check, cluster: &clusterv1.Cluster{}}
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
	if gone, err := ownership.Gone(ctx, r.Live, check.OwnerReferences, s.cluster); err != nil || gone {
		return reconcile.Result{RequeueAfter: staleCacheRetry}, err
	}
	setOwner(s)
	if err := patch.Main(ctx, r.Client, before, check); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineHealthCheck: %w", err))
	}
	if due := r.looks.Remaining(check.UID); due > 0 {
		return r.backoff.Postpone(check, due)
	}
	result, err := r.runPhases(ctx, s)
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

// runPhases runs the phases until one fails. Nothing is done with a spec that is not valid, while the cache is older than
// the last write of this process, or while the Nodes cannot be observed.
func (r *Reconciler) runPhases(ctx context.Context, s *state) (reconcile.Result, error) {
	if err := r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if s.specError != nil {
		return reconcile.Result{}, nil //nolint:nilerr // a condition reports it; only a new spec can help
	}
	if r.behind(s.all) {
		s.stale = true
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the cache to show the last write", "after", staleCacheRetry)
		return reconcile.Result{RequeueAfter: staleCacheRetry}, nil
	}
	var result reconcile.Result
	for _, phase := range r.phases {
		next, err := phase.run(ctx, s)
		if err != nil {
			return reconcile.Result{}, err
		}
		if result = results.Earliest(result, next); s.disconnected != "" {
			break
		}
	}
	return result, nil
}
