// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inframachine is the one reconciler for the infrastructure machines of every cloud. It keeps the
// InfraMachine contract: it gives each object exactly one instance through a driver, reports it, and
// removes the instance before the object goes.
//
// It knows no cloud: clouds come as a driver.Cloud. It does not install an operating system or look at
// Nodes; bootstrap data is handed through as it is.
//
//	no Machine ─ no cluster ─ no bootstrap data ─┐ (waiting)
//	      finalizer and identity written         │
//	                                             ▼
//	                create ─► providerID ─► Pending ─► Running (provisioned, for good)
//	                                             │          │
//	                        deletion: ask, verify by reading, remove the finalizer
package inframachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/predicates"
)

// Reconciler reconciles the machines of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud  driver.Cloud[M, C]
	Client client.Client
	// Live reads without a cache.
	Live     client.Reader
	Accounts *account.Cache[M, C]
	Events   events.EventRecorder
	// Changes triggers machines whose cloud said that they changed.
	Changes *Changes
	// Creating is called with the UID of each instance before the cloud is asked for it; nil is nobody.
	Creating func(uid types.UID)
	// WatchFilter limits the objects to those whose watch-filter label has this value; empty means all.
	WatchFilter predicates.WatchFilter
	Workers     int
	// Resync is how often a settled instance is looked at.
	Resync time.Duration

	// quiet are the machines of which this process knows that nothing they asked of the cloud is unanswered: they
	// were claimed here and not asked for yet, or the cloud refused for good. What a process before this one asked,
	// it does not know.
	quiet set
	// made has the providerIDs that the cloud returned and the cache did not show yet.
	made providerIDs
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;update

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"machine").
		For(r.Cloud.NewMachine(), forPredicates(r.WatchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine), onMachineChange()).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), onClusterChange()).
		WatchesRawSource(r.Changes).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile brings one machine closer to its spec.
func (r *Reconciler[M, C]) Reconcile(ctx context.Context, machine M) (ctrl.Result, error) {
	if !r.WatchFilter.Matches(machine) {
		return ctrl.Result{}, nil
	}
	before := machine.DeepCopyObject().(M)
	s, err := r.observe(ctx, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.advance(ctx, s)
	return r.save(ctx, before, s, outcome{result, err})
}

// advance runs the ordered phases until one has to wait.
func (r *Reconciler[M, C]) advance(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if setPaused(s.machine, s.cluster) {
		return ctrl.Result{}, nil
	}
	if !s.machine.GetDeletionTimestamp().IsZero() {
		return r.finalize(ctx, s)
	}
	for _, phase := range []phase[M, C]{
		r.waitForOwner,     // a Machine owns this object
		r.claim,            // the finalizer and the identity are on the object
		r.waitForCluster,   // the Cluster's own infrastructure is there
		r.waitForBootstrap, // the Machine names its bootstrap data
		r.pin,              // the account is on the object
		r.checkpoint,       // what was claimed is stored before anything exists in the cloud
		r.bootstrap,        // the bootstrap data is read
		r.instance,         // the instance exists and its providerID is known
		r.provision,        // the next step is taken of an instance that is finished in steps
		r.report,           // the status says what the cloud says
		r.retag,            // the tags name the Cluster that there is now
	} {
		if result, err := phase(ctx, s); err != nil || s.waiting || result.RequeueAfter > 0 {
			return result, err
		}
	}
	return ctrl.Result{RequeueAfter: r.Resync}, nil
}

// finalize deletes the instance and lets the object go once a read proved that it is gone.
func (r *Reconciler[M, C]) finalize(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.machine, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}
	if claimed(s.machine) && s.clusterName() == "" {
		return s.wait(ClusterUnknownReason, clusterUnknown)
	}
	gone, result, err := r.remove(ctx, s)
	if err != nil && mayRelease(err) && s.machine.GetAnnotations()[infrav1.ReleaseAnnotation] == releaseWord(s.machine) {
		s.end = released(releaseWord(s.machine), err)
		gone, err = true, nil
	}
	if err != nil {
		return r.failed(s, fmt.Errorf("deleting instance: %w", err))
	}
	if gone {
		r.quiet.remove(s.machine.GetUID())
		r.made.remove(s.machine.GetUID())
		controllerutil.RemoveFinalizer(s.machine, infrav1.MachineFinalizer)
		return ctrl.Result{}, nil
	}
	words := "waiting for the cloud to delete the instance"
	if said := s.observed.Message; said != "" {
		words += ", which says: " + said
	}
	setWaiting(s.machine, DeletingReason, words)
	return result, nil
}
