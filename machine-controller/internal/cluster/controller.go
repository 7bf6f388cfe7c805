// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles Clusters: what infrastructure and control plane, if any, say
// about themselves, whether the workload cluster can be reached, how many workers it has,
// and the order in which everything goes when the Cluster is deleted. A Cluster without a
// control plane object is the usual case here: an endpoint and a kubeconfig Secret are all
// it needs. It makes no kubeconfigs and manages no control planes.
package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// absentRetry is how often a referenced object that does not exist is looked for.
const absentRetry = 30 * time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;clusters/status;clusters/finalizers,verbs=get;list;watch;update;patch
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

	watch  predicates.WatchFilter
	teller *statuswriter.Writer
	looks  coalesce.ResyncLimiter
}

// state is one Cluster and what a reconcile has observed about it.
type state struct {
	cluster      *clusterv1.Cluster
	infra        *contract.InfraCluster
	infraErr     error
	controlPlane *contract.ControlPlane
	planeErr     error
	connection   workload.State
	workers      workers
	deletion     progress
}

// progress says where a deletion stands, in the words of the Deleting condition.
type progress struct{ reason, message string }

// Register adds the controller to the manager, with everything that can wake a Cluster.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.watch, r.teller, r.looks.Clock = watch, statuswriter.New(r.Client, r.Clock), r.Clock
	children := builder.WithPredicates(watch.ChildPredicate())
	c, err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.Cluster{}, builder.WithPredicates(watch.MatchingPredicate())).
		Watches(&clusterv1.MachineDeployment{}, coalesce.Map(clusterOf), children).
		Watches(&clusterv1.MachineSet{}, coalesce.Map(clusterOfStandalone), children).
		Watches(&clusterv1.Machine{}, coalesce.Map(clusterOfStandalone), children).
		WatchesRawSource(r.Workloads.ClusterEvents(func(key client.ObjectKey) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: key}}
		})).
		WithOptions(options).
		Build(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the cluster controller: %w", err)
	}
	r.Contract.Watcher.Controller = c
	return nil
}

// Reconcile brings one Cluster forward.
func (r *Reconciler) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (reconcile.Result, error) {
	before := cluster.DeepCopy()
	s := &state{cluster: cluster, connection: r.Workloads.State(client.ObjectKeyFromObject(cluster))}
	if predicates.Paused(cluster, cluster) {
		conditions.Set(cluster, predicates.PausedCondition(cluster, cluster, "Cluster"))
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, cluster))
	}
	if cluster.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(cluster, clusterv1.ClusterFinalizer)
	}
	if due := r.looks.Remaining(cluster.UID); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	if err := r.countWorkers(ctx, s); err != nil {
		return reconcile.Result{}, err // nothing is decided, least of all a deletion, without knowing who is left
	}
	r.looks.MarkReconciled(cluster.UID, len(s.workers.all))
	var errs []error
	var result reconcile.Result
	for _, phase := range []func(context.Context, *state) (reconcile.Result, error){
		r.infrastructure, // the shared infrastructure exists, where it is not somebody else's
		r.controlPlane,   // the API server answers, whoever runs it
		r.finalize,       // when deleted: workers, then control plane, then infrastructure
	} {
		next, err := phase(ctx, s)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	if err := patch.Main(ctx, r.Client, before, cluster); err != nil {
		return reconcile.Result{}, kerrors.NewAggregate(append(errs, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching Cluster: %w", err))))
	}
	if !cluster.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) {
		return reconcile.Result{}, kerrors.NewAggregate(errs)
	}
	r.setStatus(s)
	again, err := r.teller.Write(ctx, before, cluster, pressing(before, cluster))
	if err := kerrors.NewAggregate(append(errs, results.IgnoreNotFoundOrConflict(err))); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, again), nil
}

// infrastructure follows the InfraCluster. Without one there is nothing to wait for.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, status := &s.cluster.Spec, &s.cluster.Status
	if !spec.InfrastructureRef.IsDefined() {
		status.Initialization.InfrastructureProvisioned = new(true)
		return reconcile.Result{}, nil
	}
	s.infra, s.infraErr = r.Contract.InfraCluster(ctx, s.cluster.Namespace, spec.InfrastructureRef)
	if s.infraErr != nil {
		return absent(s.infraErr)
	}
	if err := r.adopt(ctx, s.cluster, s.infra.Unstructured); isRefused(err) {
		s.infra, s.infraErr = nil, err
		return absent(err)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if !s.infra.Provisioned() {
		return reconcile.Result{}, nil
	}
	status.Initialization.InfrastructureProvisioned = new(true)
	if spec.ControlPlaneEndpoint.Host == "" {
		spec.ControlPlaneEndpoint = s.infra.Endpoint()
	}
	status.FailureDomains = s.infra.FailureDomains()
	return reconcile.Result{}, nil
}

// controlPlane follows the ControlPlane. Without one the control plane is somebody else's
// and counts as initialized once the workload cluster has been reached.
func (r *Reconciler) controlPlane(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, status := &s.cluster.Spec, &s.cluster.Status
	if !spec.ControlPlaneRef.IsDefined() {
		if s.connection.Connected {
			status.Initialization.ControlPlaneInitialized = new(true)
		}
		return reconcile.Result{}, nil
	}
	s.controlPlane, s.planeErr = r.Contract.ControlPlane(ctx, s.cluster.Namespace, spec.ControlPlaneRef)
	if s.planeErr != nil {
		return absent(s.planeErr)
	}
	if err := r.adopt(ctx, s.cluster, s.controlPlane.Unstructured); isRefused(err) {
		s.controlPlane, s.planeErr = nil, err
		return absent(err)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if spec.ControlPlaneEndpoint.Host == "" {
		spec.ControlPlaneEndpoint = s.controlPlane.Endpoint()
	}
	if s.controlPlane.Initialized() {
		status.Initialization.ControlPlaneInitialized = new(true)
	}
	return reconcile.Result{}, nil
}

// absent decides what a reconcile does about an object that could not be read.
func absent(err error) (reconcile.Result, error) {
	if apierrors.IsNotFound(err) || contract.IsMisconfigured(err) || isRefused(err) {
		return reconcile.Result{RequeueAfter: absentRetry}, nil
	}
	return reconcile.Result{}, err
}
