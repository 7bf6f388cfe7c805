// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machine reconciles Machines: it follows a Machine's bootstrap and infrastructure
// objects through the contract, finds its Node in the workload cluster and reports the state of
// all of them. A Machine that is being deleted is handed to package deletion. It depends on no
// cloud and creates no objects; the MachineSet controller creates Machines together with their
// provider objects.
package machine

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	"drover.io/machine-controller/internal/clusterpredicate"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/machine/nodesync"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
	"drover.io/runtime/tracing"
)

// answerRetry is how long to wait after a request that the workload cluster did not answer.
const answerRetry = 2 * time.Second

// reconcileTimeout is how long one reconcile may take, however many requests to a workload cluster it makes.
const reconcileTimeout = 2 * time.Minute

// staleCacheRetry is how long to wait at most until the cache shows the last write of this process.
const staleCacheRetry = time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedrainrules,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io;bootstrap.cluster.x-k8s.io;controlplane.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles Machines. All fields but the sync expressions and the Tracer are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself.
	Live      client.Reader
	Contract  *contract.Reader
	Workloads *workload.Connections
	Drainer   *drain.Drainer
	Volumes   *volume.Waiter
	Guard     *safety.Guard
	Events    events.EventRecorder
	Clock     clock.PassiveClock
	// RemoteConditionsGracePeriod is how long a Node's last observed health stays valid while
	// its cluster cannot be reached.
	RemoteConditionsGracePeriod time.Duration
	// Workers is how many Machines are reconciled at a time. One namespace gets half of them.
	Workers int
	// SyncLabels and SyncAnnotations match keys that are copied from a Machine to its Node in
	// addition to those of the managed domains.
	SyncLabels, SyncAnnotations []*regexp.Regexp
	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer

	phases    []phase
	deleter   *deletion.Deleter
	debounce  statusDebounce
	readiness readiness
	writes    expectation.Writes
	fairShare *fairshare.Gate
	backoff   *backoff.Limiter
}

// A phase reconciles one aspect of a Machine. It may change the Machine in the state; of the API it
// writes only to provider objects of the Machine and to its Node.
type phase interface {
	run(ctx context.Context, s *state) (reconcile.Result, error)
}

// Register adds the controller to the manager, with all events that trigger a reconcile.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.setPhases()
	r.fairShare, r.backoff = fairshare.NewGate(r.Workers, r.Clock), backoff.NewLimiter()
	c, err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.Machine{}, builder.WithPredicates(watch.MatchingPredicate(), r.writes.ExternalChanges())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfCluster), builder.WithPredicates(clusterpredicate.StateChanged())).
		Watches(&clusterv1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfDeployment), builder.WithPredicates(watch.ChildPredicate(), upToDateInputChanged())).
		Watches(&clusterv1.MachineSet{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfSet), builder.WithPredicates(watch.ChildPredicate(), revisionChanged())).
		WatchesRawSource(r.Workloads.NodeEvents(r.machinesOfNode)).
		WatchesRawSource(r.Workloads.ClusterEvents(r.machinesOfConnection)).
		WithOptions(r.backoff.Options(options)).
		Build(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machine controller: %w", err)
	}
	r.Contract.Watcher.Controller = c
	return nil
}

// setPhases lists the phases of a Machine, in order.
func (r *Reconciler) setPhases() {
	recorder := &recorder{r.Events}
	r.writes.Clock = r.Clock
	requested := deletion.NewRequested(r.Clock)
	r.phases = []phase{
		metadata{r.Live}, // it has an owner and a finalizer
		bootstrap{r.Client, r.Contract, recorder, requested},                                                       // its bootstrap data exists
		infrastructure{r.Client, r.Contract, recorder, requested},                                                  // its instance exists
		node{r.Client, r.Workloads, nodesync.Sync{Labels: r.SyncLabels, Annotations: r.SyncAnnotations}, recorder}, // its Node has joined the workload cluster
	}
	r.deleter = deletion.New(deletion.Options{
		Client: r.Client, Workloads: r.Workloads, Drainer: r.Drainer, Volumes: r.Volumes, Guard: r.Guard,
		Events: r.Events, Clock: r.Clock, Requested: requested,
	})
}

// Reconcile runs the phases of one Machine, with at most one write to it and one to its status.
func (r *Reconciler) Reconcile(ctx context.Context, m *clusterv1.Machine) (reconcile.Result, error) {
	if r.writes.Behind(m) {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the cache to show the last write", "after", staleCacheRetry)
		return r.backoff.Postpone(m, staleCacheRetry) // the event of the write triggers a reconcile, too
	}
	leave, retryAfter := r.fairShare.Enter(m.Namespace, m.Name)
	if leave == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for a worker of the namespace", "after", retryAfter)
		return r.backoff.Postpone(m, retryAfter)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	before := m.DeepCopy()
	s, err := r.observe(ctx, m)
	if err != nil {
		return reconcile.Result{}, err
	}
	ctx = tracing.NewContext(withLogger(ctx, s), r.Tracer.Trace(m).Within(tracing.CreateMachine))
	if r.setSkipped(ctx, s) {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, m))
	}
	var errs []error
	var result reconcile.Result
	for _, phase := range r.phases {
		next, err := phase.run(ctx, s)
		metrics.IncOperationErrors(metrics.Operation(phase), err)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	switch {
	case !s.deleting():
	case identityChanged(before, m):
		// Once the instance is gone nothing else identifies the Node that is left.
		result = results.Earliest(result, reconcile.Result{RequeueAfter: staleCacheRetry}) // the event of the write triggers a reconcile, too
	default:
		next, err := r.finalize(ctx, s)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	next, err := r.write(ctx, before, s)
	if err := kerrors.NewAggregate(append(errs, err)); err != nil {
		return reconcile.Result{}, err
	}
	return results.Earliest(result, next), nil
}

// finalize deletes the Machine's objects, instance and Node, and then removes the finalizer.
func (r *Reconciler) finalize(ctx context.Context, s *state) (reconcile.Result, error) {
	controlPlaneDeleting, err := r.controlPlaneDeleting(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	s.deletion, err = r.deleter.Run(ctx, s.forDeletion(controlPlaneDeleting))
	if err != nil || !s.deletion.Done {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting to delete the Machine", "reason", s.deletion.Reason, "message", s.deletion.Message)
		return results.Earliest(reconcile.Result{RequeueAfter: s.deletion.RequeueAfter}, controlPlaneRetry(s)), err
	}
	controllerutil.RemoveFinalizer(s.machine, clusterv1.MachineFinalizer)
	return reconcile.Result{}, nil
}

// observe reads the Cluster and the owners of a Machine. A missing Cluster is nil, unless the
// Machine is being deleted: then it is a Cluster without a UID, whose workload cluster is not connected.
func (r *Reconciler) observe(ctx context.Context, m *clusterv1.Machine) (*state, error) {
	s := &state{machine: m, cluster: &clusterv1.Cluster{}, recorded: nodesync.Recorded(m)}
	err := r.Client.Get(ctx, s.clusterKey(), s.cluster, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) && s.deleting():
		s.cluster.Namespace, s.cluster.Name = m.Namespace, m.Spec.ClusterName
	case apierrors.IsNotFound(err):
		s.cluster = nil
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %q: %w", m.Spec.ClusterName, err)
	}
	s.set, err = controllerOf[clusterv1.MachineSet](ctx, r.Client, m, "MachineSet")
	if err == nil && s.set != nil {
		s.deployment, err = controllerOf[clusterv1.MachineDeployment](ctx, r.Client, s.set, "MachineDeployment")
	}
	return s, err
}

// write persists what the phases and steps have changed.
func (r *Reconciler) write(ctx context.Context, before *clusterv1.Machine, s *state) (reconcile.Result, error) {
	if err := patch.Main(ctx, r.Client, before, s.machine); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching Machine: %w", err))
	}
	logWritten(ctx, before, s.machine)
	if s.deleting() && len(s.machine.Finalizers) == 0 {
		r.writes.Finalized(s.machine)
	} else {
		r.writes.Note(s.machine)
	}
	if s.deleting() && !controllerutil.ContainsFinalizer(s.machine, clusterv1.MachineFinalizer) {
		r.debounce.release(s.machine.UID)
		r.readiness.release(s.machine.UID)
		r.emitDeletion(before, s)
		return reconcile.Result{}, nil
	}
	result := r.setStatus(s)
	if !equality.Semantic.DeepEqual(before.Status, s.machine.Status) && !urgent(before, s.machine) {
		if remaining := r.debounce.remaining(s.machine.UID, r.Clock.Now()); remaining > 0 {
			return results.Earliest(result, reconcile.Result{RequeueAfter: remaining}), nil
		}
	}
	r.debounce.release(s.machine.UID)
	if err := patch.Status(ctx, r.Client, before, s.machine); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching the status of Machine: %w", err))
	}
	r.writes.Note(s.machine)
	logStatusWritten(ctx, before, s.machine)
	if s.machine.Status.Phase != before.Status.Phase {
		metrics.ObservePhase(s.machine.Status.GetTypedPhase(), r.Clock.Since(s.machine.CreationTimestamp.Time))
	}
	firstReady := r.readiness.written(before, s.machine, s.deployment, r.Clock.Now())
	r.emitPhases(before, s, firstReady)
	return result, nil
}
