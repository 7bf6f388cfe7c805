// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package csrapproval approves the certificate requests of kubelets in workload clusters: serving certificates,
// which no controller of Kubernetes approves, and first client certificates where the cluster does not do so by itself.
// It approves only requests that provably come from a Machine of the management cluster and name only that Machine.
// It ignores all others and never denies one, as other approvers may approve it. The manager registers it.
package csrapproval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/claim"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/predicates"
	"drover.io/runtime/tracing"
)

// recheckPeriod is how often a kubeconfig is read for changes, and an unreachable cluster tried again.
const recheckPeriod = time.Minute

// Reconciler watches the requests in the workload cluster of every Cluster that has BootstrapConfigs.
type Reconciler struct {
	Client      client.Client
	Connections *workload.Connections
	Events      events.EventRecorder
	// Live reads without a cache.
	Live client.Reader
	// Claims reads which management cluster acts on a workload cluster; with nil, this one does.
	Claims *claim.Reader
	// TrustReported accepts addresses that only the guest reports, unless they are those of another host.
	TrustReported bool
	// Resolve looks up the addresses of a host name, of the control plane's endpoint; nil looks nothing up.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer

	// Watch selects the objects of this manager: only requests of its Machines are approved.
	Watch predicates.WatchFilter

	// seats are those of the open requests of all workload clusters.
	seats *fairshare.Seats[string]
	// listed are those of requests in unfinished lists.
	listed *fairshare.Seats[string]

	mu      sync.Mutex
	watches map[types.NamespacedName]*watch
}

// Register adds the controller and its watches to a manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.watches = map[types.NamespacedName]*watch{}
	r.seats, r.listed = fairshare.New[string](maxRequests), fairshare.New[string](maxListed)
	if err := mgr.Add(manager.RunnableFunc(r.stopAll)); err != nil {
		return err
	}
	// A Cluster that loses its label is reconciled once more, to stop its watch.
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("csrapproval").
		For(&clusterv1.Cluster{}, builder.WithPredicates(changed)).
		Watches(&bootstrapv1.BootstrapConfig{}, handler.EnqueueRequestsFromMapFunc(clusterOf), builder.WithPredicates(r.Watch.MatchingPredicate(), predicate.LabelChangedPredicate{})).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(clusterOf), builder.WithPredicates(r.Watch.MatchingPredicate(), hostChanged())).
		Complete(r)
}

// Reconcile starts, replaces or stops the watch of one workload cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if cluster == nil {
		r.stop(request.NamespacedName)
		r.Connections.Remove(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	connection, err := r.Connections.Get(ctx, request.NamespacedName)
	if _, bad := errors.AsType[*kubeconfig.Error](err); bad {
		r.stop(request.NamespacedName)
		return reconcile.Result{RequeueAfter: recheckPeriod}, nil // the conditions of the BootstrapConfigs have the error
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r.start(cluster, connection).requeueAll()
	return reconcile.Result{RequeueAfter: recheckPeriod}, nil
}

// observe returns the Cluster if it has BootstrapConfigs of this manager, and nil otherwise.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, key, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Cluster: %w", err)
	}
	if !r.Watch.Matches(cluster) {
		return nil, nil
	}
	configs := &bootstrapv1.BootstrapConfigList{}
	if err := r.Client.List(ctx, configs, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing BootstrapConfigs: %w", err)
	}
	for i := range configs.Items {
		if r.Watch.Matches(&configs.Items[i]) {
			return cluster, nil
		}
	}
	return nil, nil
}

// start returns the watch of a workload cluster by a connection. One by an earlier connection is stopped.
func (r *Reconciler) start(cluster *clusterv1.Cluster, connection *workload.Connection) *watch {
	key := client.ObjectKeyFromObject(cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	if running := r.watches[key]; running != nil {
		if running.connection == connection {
			return running
		}
		running.stop()
	}
	pace := r.paceOf(key.Namespace)
	r.watches[key] = startWatch(&approver{
		client: r.Client, watch: r.Watch, events: newRecorder(r.Events), cluster: cluster, connection: connection,
		log:  ctrl.Log.WithName("csrapproval").WithValues("Cluster", klog.KObj(cluster)),
		live: r.Live, resolve: r.Resolve, claims: r.Claims, trustReported: r.TrustReported, tracer: r.Tracer,
	}, r.seats, r.listed, pace)
	return r.watches[key]
}

// paceOf returns the pace of the watches of a namespace. The caller holds the lock.
func (r *Reconciler) paceOf(namespace string) *rate.Limiter {
	for key, running := range r.watches {
		if key.Namespace == namespace {
			return running.pace
		}
	}
	return newPace()
}

func (r *Reconciler) stop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if running := r.watches[key]; running != nil {
		running.stop()
		delete(r.watches, key)
	}
}

// stopAll stops all watches when the manager stops.
func (r *Reconciler) stopAll(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, running := range r.watches {
		running.stop()
	}
	return nil
}

// hostChanged passes updates of Machines that change their Node or their addresses.
func hostChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*clusterv1.Machine)
			after, ok2 := e.ObjectNew.(*clusterv1.Machine)
			return ok1 && ok2 && (before.Status.NodeRef != after.Status.NodeRef || !slices.Equal(before.Status.Addresses, after.Status.Addresses))
		},
	}
}

func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}
