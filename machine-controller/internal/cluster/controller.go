// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles Clusters: the reported state of infrastructure and control plane, if
// there are any, the connection to the workload cluster, the number of workers, and the order in
// which all of these are deleted. A Cluster without a control plane object is the usual case here:
// an endpoint and a kubeconfig Secret are all it needs. It creates no kubeconfigs and manages no
// control planes.
package cluster

import (
	"context"
	"fmt"

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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments,verbs=delete

// Reconciler reconciles Clusters. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself.
	Live      client.Reader
	Contract  *contract.Reader
	Workloads *workload.Connections
	Events    events.EventRecorder
	Clock     clock.PassiveClock

	phases       []phase
	statusWriter *statuswriter.Writer
	resyncs      coalesce.ResyncLimiter
	backoff      *backoff.Limiter
}

// A phase reconciles one aspect of a Cluster. It may change the Cluster in the state; of the API it writes only to
// objects that belong to the Cluster.
type phase interface {
	run(ctx context.Context, s *state) (reconcile.Result, error)
}

// Register adds the controller to the manager, with all events that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.setPhases(watch)
	r.statusWriter, r.resyncs.Clock, r.backoff = statuswriter.New(r.Client, r.Clock), r.Clock, backoff.NewLimiter()
	children := builder.WithPredicates(watch.ChildPredicate())
	c, err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.Cluster{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(clusterOf), children).
		Watches(&clusterv1.MachineSet{}, coalesce.Map(clusterOfStandalone), children).
		Watches(&clusterv1.Machine{}, coalesce.Map(clusterOfStandalone), children).
		WatchesRawSource(r.Workloads.ClusterEvents(func(key client.ObjectKey) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: key}}
		})).
		WithOptions(r.backoff.Options(options)).
		Build(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the cluster controller: %w", err)
	}
	r.Contract.Watcher.Controller = c
	return nil
}

// setPhases lists the phases of a Cluster, in order.
func (r *Reconciler) setPhases(watch predicates.WatchFilter) {
	adopter := adopter{r.Client, r.Live}
	r.phases = []phase{
		infrastructure{adopter, r.Contract}, // the shared infrastructure exists, if it is referred to
		controlPlane{adopter, r.Contract},   // the control plane is initialized, also an externally managed one
		deletion{r.Client, r.Live, watch},   // workers, then control plane, then infrastructure are deleted
	}
}

// Reconcile runs the phases of one Cluster, with at most one write to it and one to its status.
func (r *Reconciler) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (reconcile.Result, error) {
	before := cluster.DeepCopy()
	s := &state{cluster: cluster}
	if predicates.Paused(cluster, cluster) {
		ctrl.LoggerFrom(ctx).V(1).Info("skipped the paused Cluster")
		conditions.Set(cluster, predicates.PausedCondition(cluster, cluster, "Cluster"))
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, cluster))
	}
	if cluster.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(cluster, clusterv1.ClusterFinalizer)
	}
	if due := r.resyncs.Remaining(cluster.UID); due > 0 {
		return r.backoff.Postpone(cluster, due)
	}
	if err := r.observe(ctx, s); err != nil {
		return reconcile.Result{}, err // nothing is decided, least of all a deletion, while workers may be missing
	}
	r.resyncs.MarkReconciled(cluster.UID, len(s.workers.all))
	var errs []error
	var result reconcile.Result
	for _, phase := range r.phases {
		next, err := phase.run(ctx, s)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	if err := patch.Main(ctx, r.Client, before, cluster); err != nil {
		return reconcile.Result{}, kerrors.NewAggregate(append(errs, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching Cluster: %w", err))))
	}
	logWritten(ctx, before, cluster)
	if !cluster.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) {
		return reconcile.Result{}, kerrors.NewAggregate(errs)
	}
	r.setStatus(s)
	version := cluster.ResourceVersion
	again, err := r.statusWriter.Write(ctx, before, cluster, urgent(before, cluster))
	if cluster.ResourceVersion != version {
		logStatusWritten(ctx, before, cluster)
	}
	if err := kerrors.NewAggregate(append(errs, results.IgnoreNotFoundOrConflict(err))); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}
