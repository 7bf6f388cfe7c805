// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package bootstrapconfig reconciles BootstrapConfigs: it renders the bootstrap data of a Machine into a Secret
// in the management cluster, and keeps the bootstrap token that this data holds valid in the workload cluster
// until the Node has joined. It does not decide what is in the data (package node) nor how it is written
// (packages cloudinit and ignition), and it never touches Machines or Nodes. The manager registers it.
//
//	               management cluster                       workload cluster
//	Machine ──owns──▶ BootstrapConfig (finalizer)
//	                       │ 1 writes, once
//	                       ▼
//	                  data Secret ──── 2 token, renewed ───▶ bootstrap-token-<id>
//	                       │                                      ▲
//	                       │ 3 dataSecretName, read by            │ 4 presented by the host,
//	                       ▼   the core and the provider          │   deleted once the Node is known
//	                    instance ─────────────────────────────────┘
package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/claim"
	"drover.io/runtime/expiring"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/predicates"
	"drover.io/runtime/tracing"
)

// Reconciler reconciles BootstrapConfigs.
type Reconciler struct {
	Client client.Client

	// Live reads Secrets from the API server: they are never cached.
	Live client.Reader

	Connections *workload.Connections
	// Claims reads which management cluster acts on a workload cluster; with nil, this one does.
	Claims *claim.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock

	// NewToken makes a random bootstrap token.
	NewToken func() (token.Token, error)

	// ReadChecksum reads the checksum of a file from the file at checksumURL, and trusts additional authorities in PEM.
	ReadChecksum func(ctx context.Context, checksumURL, fileURL, authorities string) (string, error)

	// Watch selects the objects of this manager.
	Watch predicates.WatchFilter

	// Workers is how many BootstrapConfigs are reconciled at a time. One namespace gets half of them.
	Workers int

	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer

	share   *fairshare.Gate
	backoff *backoff.Limiter

	reads       singleflight.Group
	failedReads expiring.Map[string, error]
}

// +kubebuilder:rbac:groups=bootstrap.drover.io,resources=bootstrapconfigs,verbs=list;watch;patch
// +kubebuilder:rbac:groups=bootstrap.drover.io,resources=bootstrapconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.drover.io,resources=bootstrapconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller and its watches to a manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.share, r.backoff = fairshare.NewGate(r.Workers, r.Clock), backoff.NewLimiter()
	r.failedReads.Clock, r.failedReads.TTL = r.Clock, failedReadMemory
	return ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.BootstrapConfig{}, builder.WithPredicates(r.Watch.MatchingPredicate(), predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, ownersChanged()))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(configOfMachine), builder.WithPredicates(machineChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.configsOfCluster), builder.WithPredicates(clusterChanged())).
		Watches(&bootstrapv1.NodeProfile{}, handler.EnqueueRequestsFromMapFunc(r.configsOfProfile),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(r.backoff.Options(controller.Options{MaxConcurrentReconciles: r.Workers})).
		Complete(reconcile.AsReconciler(mgr.GetClient(), predicates.FilterReconciler(r.Watch, r)))
}

// Reconcile brings one BootstrapConfig a step further. It writes the status once, and only if it changed.
func (r *Reconciler) Reconcile(ctx context.Context, config *bootstrapv1.BootstrapConfig) (reconcile.Result, error) {
	leave, retryAfter := r.share.Enter(config.Namespace, config.Name)
	if leave == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for a worker of the namespace", "after", retryAfter)
		return r.backoff.Postpone(config, retryAfter)
	}
	defer leave()
	observed := config.Status.DeepCopy()
	s, err := r.observe(ctx, config)
	if err != nil {
		return reconcile.Result{}, err
	}
	ctx = tracing.NewContext(ctrl.LoggerInto(ctx, s.logger(ctx)), r.trace(s))
	if setPaused(config, s.cluster) {
		return reconcile.Result{}, r.writeStatus(ctx, config, observed)
	}
	if !config.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, s)
	}
	if s.machine == nil && machineOwner(config) != nil {
		return reconcile.Result{}, nil // an event follows: the Machine appears in the cache, or this object is deleted, too
	}
	config.Status.ObservedGeneration = config.Generation
	result, err := r.runPhases(ctx, s)
	if unmet, is := errors.AsType[*waiting](err); is {
		if setWaiting(config, unmet) {
			blocked(r.Events, config, unmet)
		}
		result, err = reconcile.Result{RequeueAfter: unmet.after}, nil
	}
	if apierrors.IsConflict(err) {
		result, err = reconcile.Result{RequeueAfter: time.Second}, nil // read from a cache that was behind
	}
	written := r.writeStatus(ctx, config, observed)
	if written == nil {
		r.emitCreation(s, observed)
	}
	return result, errors.Join(err, written)
}

func (r *Reconciler) runPhases(ctx context.Context, s *state) (reconcile.Result, error) {
	var result reconcile.Result
	for _, p := range []phase{
		&ownership{r.Watch},            // a Machine owns it and its Cluster exists
		&data{reconciler: r},           // the data Secret exists, with a token in it
		&bootstrapToken{reconciler: r}, // the token is valid, or gone once the Node has joined
		&dataSecretStatus{},            // the core may use the data Secret
	} {
		next, err := p.reconcile(ctx, s)
		if refused(err) {
			err = requestRefused(err)
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		if next > 0 && (result.RequeueAfter == 0 || next < result.RequeueAfter) {
			result.RequeueAfter = next
		}
	}
	return result, nil
}

// finalize deletes the token. It waits for revokeGrace at most: a token that cannot be deleted is not renewed any more, and
// expires by itself.
func (r *Reconciler) finalize(ctx context.Context, s *state) (reconcile.Result, error) {
	if !hasFinalizer(s.config) {
		return reconcile.Result{}, nil
	}
	err := r.revoke(ctx, s)
	if err != nil && r.Clock.Since(s.config.DeletionTimestamp.Time) < revokeGrace {
		ctrl.LoggerFrom(ctx).V(1).Info("could not delete bootstrap token yet", "message", err.Error())
		return reconcile.Result{RequeueAfter: revokeRetry}, nil
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("left bootstrap token to expire", "after", tokenTTL(s.config), "message", err.Error())
		tokenLeft(r.Events, s.config, tokenTTL(s.config))
	}
	if err := r.setFinalizer(ctx, s.config, false); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, nil
}

func (r *Reconciler) configsOfCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	list := &bootstrapv1.BootstrapConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing BootstrapConfigs of a Cluster")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

func configOfMachine(_ context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.Kind != "BootstrapConfig" || ref.APIGroup != bootstrapv1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}}}
}

func (r *Reconciler) writeStatus(ctx context.Context, config *bootstrapv1.BootstrapConfig, observed *bootstrapv1.BootstrapConfigStatus) error {
	if equalStatus(observed, &config.Status) {
		return nil
	}
	before, after := withoutSpec(config), withoutSpec(config)
	observed.DeepCopyInto(&before.Status)
	config.Status.DeepCopyInto(&after.Status)
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, after, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	measure(config, observed, r.Clock.Now())
	return nil
}

// withoutSpec is what identifies the object for a patch.
func withoutSpec(config *bootstrapv1.BootstrapConfig) *bootstrapv1.BootstrapConfig {
	return &bootstrapv1.BootstrapConfig{ObjectMeta: identifying(config)}
}

// identifying is the metadata that a patch of an object needs. A patch is computed from both objects as a whole, which with
// a large spec takes many times its size.
func identifying(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion()}
}
