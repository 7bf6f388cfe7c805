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
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/filter"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/workload"
)

// lookAgain is how often a deletion that waits for others is looked at, besides at their events.
const lookAgain = 10 * time.Second

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

	midwife *midwife
	tracker *expectation.Tracker
	teller  *coalesce.Teller
	looks   coalesce.Looks
}

// family is one MachineSet with its Machines, and what hinders it.
type family struct {
	set      *clusterv1.MachineSet
	cluster  *clusterv1.Cluster
	machines []*clusterv1.Machine
	// born counts the Machines that this reconcile has added, which machines does not show.
	born int
	// trouble is why Machines that are missing cannot be created.
	trouble error
	frost   safety.Frost
}

// Register adds the controller to the manager, with everything that can wake a MachineSet.
func (r *Reconciler) Register(mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	r.tracker = &expectation.Tracker{Clock: r.Clock}
	r.teller, r.looks.Clock = coalesce.NewTeller(r.Client, r.Clock), r.Clock
	r.midwife = &midwife{client: r.Client, templates: r.Templates, tracker: r.tracker}
	err := builder.ControllerManagedBy(mgr).
		For(&clusterv1.MachineSet{}, builder.WithPredicates(filter.WatchLabel(watchFilter))).
		Watches(&clusterv1.Machine{}, coalesce.Controller("MachineSet")).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.setsForOrphan), builder.WithPredicates(orphans())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.setsOfCluster), builder.WithPredicates(filter.ClusterTurns())).
		WatchesRawSource(r.Workloads.ClusterEvents(r.setsOfConnection)).
		WithOptions(options).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("registering the machineset controller: %w", err)
	}
	return nil
}

// Reconcile brings one MachineSet forward.
func (r *Reconciler) Reconcile(ctx context.Context, set *clusterv1.MachineSet) (reconcile.Result, error) {
	before := set.DeepCopy()
	f := &family{set: set, cluster: &clusterv1.Cluster{}}
	key := client.ObjectKey{Namespace: set.Namespace, Name: set.Spec.ClusterName}
	if err := r.Client.Get(ctx, key, f.cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %q: %w", key.Name, err)
	}
	if filter.Paused(f.cluster, set) {
		return r.rest(ctx, before, f)
	}
	if !set.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, before, f)
	}
	if f.cluster.UID == "" {
		setClusterMissing(set)
		return reconcile.Result{}, outcome.Settled(patch.Status(ctx, r.Client, before, set))
	}
	own(f)
	if err := patch.Main(ctx, r.Client, before, set); err != nil {
		return reconcile.Result{}, outcome.Settled(fmt.Errorf("patching MachineSet: %w", err))
	}
	if due := r.looks.Due(set.UID); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	var err error
	if f.machines, err = r.gather(ctx, f); err != nil {
		return reconcile.Result{}, err // what was counted before stands
	}
	r.looks.Took(set.UID, len(f.machines))
	result, err := r.tend(ctx, f)
	again, statusErr := r.tell(ctx, before, f)
	if err := kerrors.NewAggregate([]error{err, statusErr}); err != nil {
		return reconcile.Result{}, err
	}
	return outcome.Sooner(result, again), nil
}

// tend mends the Machines, and creates or deletes some.
func (r *Reconciler) tend(ctx context.Context, f *family) (reconcile.Result, error) {
	fresh, err := r.fresh(ctx, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	errs := []error{r.freeze(ctx, f), r.spread(ctx, f), r.repair(ctx, f)}
	if !fresh {
		return reconcile.Result{RequeueAfter: time.Second}, kerrors.NewAggregate(errs)
	}
	acted, wake, err := r.remediate(ctx, f)
	if acted || err != nil {
		return wake, kerrors.NewAggregate(append(errs, err))
	}
	result, err := r.scale(ctx, f)
	return outcome.Sooner(outcome.Sooner(wake, result), reconcile.Result{RequeueAfter: f.frost.Again}), kerrors.NewAggregate(append(errs, err))
}

// finalize deletes every Machine and lets the MachineSet go after the last.
func (r *Reconciler) finalize(ctx context.Context, before *clusterv1.MachineSet, f *family) (reconcile.Result, error) {
	var err error
	f.machines, err = index.MachinesOf(ctx, r.Client, f.set.Namespace, f.set.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	fresh, err := r.fresh(ctx, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(f.machines) == 0 && fresh {
		r.tracker.Drop(f.set.UID)
		controllerutil.RemoveFinalizer(f.set, clusterv1.MachineSetFinalizer)
		return reconcile.Result{}, outcome.Settled(patch.Main(ctx, r.Client, before, f.set))
	}
	failed := r.removeAll(ctx, f.set, f.machines)
	again, err := r.tell(ctx, before, f)
	if err := kerrors.NewAggregate([]error{failed, err}); err != nil {
		return reconcile.Result{}, err
	}
	if !fresh {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return outcome.Sooner(again, reconcile.Result{RequeueAfter: lookAgain}), nil
}

// spread carries what the template changes in place to the Machines.
func (r *Reconciler) spread(ctx context.Context, f *family) error {
	var errs []error
	labels := machineLabels(f.set)
	for _, m := range f.machines {
		if carries(m, f.set, labels) {
			continue
		}
		if !inherits(m, f.set) {
			if err := r.handDown(ctx, f.set, m); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		wanted := m.DeepCopy()
		propagate(wanted, f.set)
		if err := patch.Main(ctx, r.Client, m, wanted); outcome.Settled(err) != nil {
			errs = append(errs, fmt.Errorf("updating Machine %q: %w", m.Name, err))
		}
	}
	return kerrors.NewAggregate(errs)
}

// repair makes the objects that a crash between two writes, or a person, left a Machine
// without, as long as the Machine still waits for them.
func (r *Reconciler) repair(ctx context.Context, f *family) error {
	var waiting []*clusterv1.Machine
	for _, m := range f.machines {
		if m.DeletionTimestamp.IsZero() && incomplete(m) {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	from, err := r.midwife.models(ctx, f)
	if err != nil {
		f.trouble = err
		return ignoreMisconfigured(err)
	}
	var errs []error
	for _, m := range waiting {
		errs = append(errs, r.midwife.complete(ctx, f.set, m, from.needed(m)))
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
