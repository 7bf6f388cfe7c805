// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inframachine is the one reconciler for the infrastructure machines of every cloud. It keeps the
// InfraMachine contract: it gives each object exactly one instance through a driver, reports it, and
// removes the instance before the object goes.
//
// Nothing here is about one cloud: a cloud is a driver.Cloud. Conditions and events are those of package machinestatus. It does not install an operating system or read
// Nodes; bootstrap data is passed on as it is.
//
//	no Machine ─ no cluster ─ no bootstrap data ─┐ (waiting)
//	      finalizer and identity written         │
//	                                             ▼
//	                create ─► providerID ─► Pending ─► Running (provisioned, for good)
//	                                             │          │
//	                        deletion: delete, verify by reading, remove the finalizer
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
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/runtime/expiring"
	"drover.io/runtime/predicates"
	"drover.io/runtime/tracing"
)

// Reconciler reconciles the machines of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud  driver.Cloud[M, C]
	Client client.Client
	// Live reads without a cache.
	Live     client.Reader
	Accounts *account.Cache[M, C]
	Events   events.EventRecorder
	// Changes triggers the reconcile of machines whose instances changed in the cloud.
	Changes *Changes
	// Creating is called with the UID of each instance before its creation; nil for no call.
	Creating func(uid types.UID)
	// WatchFilter limits the objects to those whose watch-filter label has this value; empty means all.
	WatchFilter predicates.WatchFilter
	Workers     int
	// Resync is how often a settled instance is read.
	Resync time.Duration
	// Jitter returns a number in [0, 1).
	Jitter func() float64
	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer

	// outcomeKnown are the machines none of whose creations has an unknown outcome: they were claimed by this process
	// and no creation was requested since, or the last one was refused for good. Creations of an earlier process have an
	// unknown outcome, and so has a machine whose entry was evicted.
	outcomeKnown expiring.Map[types.UID, struct{}]
	// createdIDs are the providerIDs that Create returned and that the cache does not show yet. Without its entry a
	// machine finds its instance by its identity.
	createdIDs expiring.Map[types.UID, string]
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"machine").
		For(r.Cloud.NewMachine(), forPredicates(r.WatchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(RequestsOfMachine(r.Cloud.NewMachine(), mgr.GetScheme())), onMachineChange()).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfCluster), onClusterChange()).
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
	ctx = tracing.NewContext(s.withLogger(ctx), r.trace(s))
	result, err := r.runPhases(ctx, s)
	return r.save(ctx, before, s, result, err)
}

// runPhases runs the ordered phases until one has to wait.
func (r *Reconciler[M, C]) runPhases(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if machinestatus.SetPaused(s.machine, s.cluster) {
		return ctrl.Result{}, nil
	}
	if !s.machine.GetDeletionTimestamp().IsZero() {
		return r.finalize(ctx, s)
	}
	for _, phase := range []phase[M, C]{
		r.waitForOwner,      // a Machine owns this object
		r.claim,             // the finalizer and the identity are on the object
		r.waitForCluster,    // the infrastructure of the Cluster is provisioned
		r.waitForClaim,      // no other management cluster acts on the Cluster
		r.waitForBootstrap,  // the Machine names its bootstrap data
		r.pinAccount,        // the account is on the object
		r.storeClaim,        // finalizer, identity and account are stored before anything exists in the cloud
		r.readBootstrapData, // the bootstrap data is read
		r.ensureInstance,    // the instance exists and its providerID is known
		r.provision,         // the next step is taken of an instance that is finished in steps
		r.setStatus,         // the status shows the instance as the cloud reports it
		r.retag,             // the tags of the instance name the present Cluster
	} {
		if result, err := phase(ctx, s); err != nil || s.waiting || result.RequeueAfter > 0 {
			return result, err
		}
	}
	return ctrl.Result{RequeueAfter: r.Resync}, nil
}

// finalize deletes the instance and removes the finalizer once a read has proved that it does not exist any more.
func (r *Reconciler[M, C]) finalize(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.machine, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}
	if claimed(s.machine) && s.clusterName() == "" {
		return s.wait(infrav1.ClusterUnknownReason, machinestatus.ClusterUnknown)
	}
	gone, result, err := r.deleteInstance(ctx, s)
	if gone && err == nil {
		if s.waiting, err = r.correctBeforeRelease(ctx, s); s.waiting {
			return ctrl.Result{}, nil
		}
	}
	if err != nil && machinestatus.MayRelease(err) && s.machine.GetAnnotations()[infrav1.ReleaseAnnotation] == machinestatus.ReleaseAnnotationValue(s.machine) {
		s.removal = machinestatus.InstanceReleased(machinestatus.ReleaseAnnotationValue(s.machine), err)
		gone, err = true, nil
	}
	if err != nil {
		return r.failed(ctx, s, fmt.Errorf("deleting instance: %w", err))
	}
	if gone {
		r.outcomeKnown.Delete(s.machine.GetUID())
		r.createdIDs.Delete(s.machine.GetUID())
		controllerutil.RemoveFinalizer(s.machine, infrav1.MachineFinalizer)
		return ctrl.Result{}, nil
	}
	machinestatus.SetWaiting(s.machine, infrav1.DeletingReason, machinestatus.Describe("waiting for the cloud to delete the instance", s.observed.Message))
	return result, nil
}
