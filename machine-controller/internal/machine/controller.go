// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machine reconciles Machines: it follows a Machine's bootstrap and infrastructure
// objects through the contract, finds its Node in the workload cluster, reports on all of
// them, and deletes in the right order (hooks, drain, volumes, virtual machine, bootstrap,
// Node). It knows no cloud and creates no objects; the MachineSet controller gives birth to
// Machines together with their provider objects.
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
	"sigs.k8s.io/cluster-api/util/conditions"
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
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/volume"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// absentRetry is how often an object that must be there, but is not, is looked for.
const absentRetry = 30 * time.Second

// answerRetry is how long to wait after a request that the workload cluster did not answer.
const answerRetry = 2 * time.Second

// busyRetry is how long a Machine waits whose namespace has its share of the workers: the API servers of its workload
// clusters take their time.
const busyRetry = 5 * time.Second

// turn is how long one reconcile may take, however many requests to a workload cluster it makes.
const turn = 2 * time.Minute

// behindRetry is how long to wait for the cache to show our own last write at most.
const behindRetry = time.Second

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;machines/status;machines/finalizers,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedrainrules,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io;bootstrap.cluster.x-k8s.io;controlplane.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconciler reconciles Machines. All fields but the sync expressions are required.
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
	// RemoteConditionsGracePeriod is how long a Node's last known health stands while its
	// cluster cannot be reached.
	RemoteConditionsGracePeriod time.Duration
	// Workers is how many Machines are reconciled at a time. One namespace gets half of them.
	Workers int
	// SyncLabels and SyncAnnotations match keys that go from a Machine to its Node beside
	// those of the managed domains.
	SyncLabels, SyncAnnotations []*regexp.Regexp

	phases []phase
	steps  []step
	held   holdback
	writes expectation.Writes
	share  *fairshare.Gate
}

// A phase brings one aspect of a Machine forward, or finds that it is done already. It may
// change the Machine it was handed; of the API it writes only to the Machine's children.
type phase interface {
	run(ctx context.Context, s *state) (reconcile.Result, error)
}

// Register adds the controller to the manager, with everything that can wake a Machine.
func (r *Reconciler) Register(mgr ctrl.Manager, watch predicates.WatchFilter, options controller.Options) error {
	r.arrange()
	r.share = fairshare.NewGate(r.Workers)
	c, err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.Machine{}, builder.WithPredicates(watch.MatchingPredicate(), r.writes.News())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfCluster), builder.WithPredicates(clusterevents.StateChanged())).
		Watches(&clusterv1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfDeployment), builder.WithPredicates(watch.ChildPredicate(), revised())).
		WatchesRawSource(r.Workloads.NodeEvents(r.machinesOfNode)).
		WatchesRawSource(r.Workloads.ClusterEvents(r.machinesOfConnection)).
		WithOptions(options).
		Build(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(watch, r)))
	if err != nil {
		return fmt.Errorf("registering the machine controller: %w", err)
	}
	r.Contract.Watcher.Controller = c
	return nil
}

// arrange lists the life of a Machine, in order.
func (r *Reconciler) arrange() {
	recorder := &recorder{r.Events}
	r.writes.Clock = r.Clock
	asked := &coalesce.Pace{Clock: r.Clock, Period: absentRetry}
	r.phases = []phase{
		ownership{r.Live}, // it belongs to somebody and cannot vanish unseen
		bootstrap{r.Client, r.Contract, recorder, asked},                                 // the data it boots with is known
		infrastructure{r.Client, r.Contract, recorder, asked},                            // its virtual machine exists
		node{r.Client, r.Workloads, nodeSync{r.SyncLabels, r.SyncAnnotations}, recorder}, // it has joined the workload cluster
	}
	drain := drained{r.Client, r.Workloads, r.Drainer, recorder, r.Clock, r.Guard}
	r.steps = []step{
		preDrain(r.Clock),                   // whoever asked may act before the drain
		drain,                               // no pod is lost
		detached{drain, r.Volumes},          // no volume is torn off
		preTerminate(r.Clock),               // whoever asked may act before the end
		infrastructureGone{r.Client, asked}, // nothing costs money any more
		bootstrapGone{r.Client, asked},      // no secret is left
		&nodeGone{workloads: r.Workloads, events: recorder, clock: r.Clock}, // the workload cluster forgets it
	}
}

// Reconcile brings one Machine forward, with at most one write to it and one to its status.
func (r *Reconciler) Reconcile(ctx context.Context, m *clusterv1.Machine) (reconcile.Result, error) {
	if r.writes.Behind(m) {
		return reconcile.Result{RequeueAfter: behindRetry}, nil // its event wakes us, too
	}
	leave, ok := r.share.Enter(m.Namespace)
	if !ok {
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	before := m.DeepCopy()
	s, err := r.observe(ctx, m)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.cluster == nil {
		setClusterMissing(m)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, m))
	}
	if predicates.Paused(s.cluster, m) {
		conditions.Set(m, predicates.PausedCondition(s.cluster, m, "Machine"))
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, m))
	}
	if claim := r.Workloads.State(s.clusterKey()).Claim; claim.Status == workload.ClaimForeign {
		setClaimedElsewhere(m, claim.Message)
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(patch.Status(ctx, r.Client, before, m))
	}
	var errs []error
	var result reconcile.Result
	for _, phase := range r.phases {
		next, err := phase.run(ctx, s)
		metrics.Failed(operation(phase), err)
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	switch {
	case !s.deleting():
	case learned(before, m):
		// Once the virtual machine is gone nothing else says which Node is left of it.
		result = results.Earliest(result, reconcile.Result{RequeueAfter: behindRetry}) // the write's event wakes us, too
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

// finalize runs the steps of deletion until one has to wait, and lets the Machine go after the last.
func (r *Reconciler) finalize(ctx context.Context, s *state) (reconcile.Result, error) {
	var err error
	if s.planeGoes, err = r.planeGoes(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	for _, step := range r.steps {
		done, result, err := step.run(ctx, s)
		metrics.Failed(operation(step), err)
		if err != nil || !done {
			return results.Earliest(result, planeAgain(s)), err
		}
	}
	s.deletion = progress{reason: clusterv1.MachineDeletingDeletionCompletedReason}
	controllerutil.RemoveFinalizer(s.machine, clusterv1.MachineFinalizer)
	return reconcile.Result{}, nil
}

// observe gathers the Cluster and the owners of a Machine. A missing Cluster is nil, unless
// the Machine is being deleted: then it counts as a Cluster that is going away.
func (r *Reconciler) observe(ctx context.Context, m *clusterv1.Machine) (*state, error) {
	s := &state{machine: m, cluster: &clusterv1.Cluster{}, recorded: recordedOn(m)}
	err := r.Client.Get(ctx, s.clusterKey(), s.cluster, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) && s.deleting():
		s.cluster.Namespace, s.cluster.Name = m.Namespace, m.Spec.ClusterName
		s.cluster.DeletionTimestamp = m.DeletionTimestamp
	case apierrors.IsNotFound(err):
		s.cluster = nil
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %q: %w", m.Spec.ClusterName, err)
	}
	s.set, err = owner[clusterv1.MachineSet](ctx, r.Client, m, "MachineSet")
	if err == nil && s.set != nil {
		s.deployment, err = owner[clusterv1.MachineDeployment](ctx, r.Client, s.set, "MachineDeployment")
	}
	return s, err
}

// write persists what the phases and steps have changed.
func (r *Reconciler) write(ctx context.Context, before *clusterv1.Machine, s *state) (reconcile.Result, error) {
	if err := patch.Main(ctx, r.Client, before, s.machine); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching Machine: %w", err))
	}
	if s.deleting() && len(s.machine.Finalizers) == 0 {
		r.writes.Finalized(s.machine)
	} else {
		r.writes.Note(s.machine)
	}
	if s.deleting() && !controllerutil.ContainsFinalizer(s.machine, clusterv1.MachineFinalizer) {
		r.held.release(s.machine.UID)
		return reconcile.Result{}, nil
	}
	result := r.setStatus(s)
	if !equality.Semantic.DeepEqual(before.Status, s.machine.Status) && !urgent(before, s.machine) {
		if left := r.held.left(s.machine.UID, r.Clock.Now()); left > 0 {
			return results.Earliest(result, reconcile.Result{RequeueAfter: left}), nil
		}
	}
	r.held.release(s.machine.UID)
	if err := patch.Status(ctx, r.Client, before, s.machine); err != nil {
		return reconcile.Result{}, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching the status of Machine: %w", err))
	}
	r.writes.Note(s.machine)
	if s.machine.Status.Phase != before.Status.Phase {
		metrics.Reached(s.machine.Status.GetTypedPhase(), r.Clock.Since(s.machine.CreationTimestamp.Time))
	}
	return result, nil
}
