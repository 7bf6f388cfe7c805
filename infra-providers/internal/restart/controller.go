// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart is the one reconciler for RestartRemediations: it restarts the instance of an unhealthy Machine
// through the driver of its cloud and, where that does not help, hands the Machine back to its owner, who replaces
// it. Each provider acts only on Machines of its own cloud.
//
// It does not decide on the Machine's health: a MachineHealthCheck creates the remediation, and deletes it once the Machine
// is healthy. Whether a Machine may be remediated now was decided before the remediation was made.
//
//	intent stored (Restarting) ─► requested ─► Waiting ─► Machine healthy: remediation deleted
//	        ▲                         │             │
//	        └── timeout, limit not reached ◄────────┤
//	                                  └─► HandedBack ◄── timeout, limit reached
package restart

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
	"drover.io/runtime/tracing"
)

// Reconciler reconciles the remediations of the machines of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud  driver.Cloud[M, C]
	Client client.Client
	// Live reads without a cache. All that decides about a restart is read so: remediations are few, and a cache
	// that is behind would restart twice.
	Live     client.Reader
	Accounts *account.Cache[M, C]
	Events   events.EventRecorder
	Now      func() time.Time
	// WatchFilter limits the remediations to those whose watch-filter label has this value; empty means all.
	WatchFilter predicates.WatchFilter
	Workers     int
	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer
}

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=restartremediations,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=restartremediations/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"restart").
		For(&infrav1.RestartRemediation{}, forPredicates(r.WatchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine), onMachineChange()).
		Watches(r.Cloud.NewMachine(), handler.EnqueueRequestsFromMapFunc(r.ofInfrastructure), infraMachinePredicate()).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), onClusterChange()).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
}

// Reconcile takes the next step of one remediation.
func (r *Reconciler[M, C]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	remediation := &infrav1.RestartRemediation{}
	if err := r.Live.Get(ctx, request.NamespacedName, remediation); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.WatchFilter.Matches(remediation) || !remediation.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s, err := r.observe(ctx, remediation)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	ctx = tracing.NewContext(s.withLogger(ctx), r.Tracer.Trace(s.machine).Within(tracing.CreateMachine))
	paused := s.pausedCondition()
	set(remediation, paused)
	if paused.Status == metav1.ConditionTrue {
		return r.save(ctx, s)
	}
	step := decide(s.facts(r.Now()))
	if refusal := s.excludedByWatchFilter(r.WatchFilter); refusal != "" {
		step = idleStep(infrav1.ForeignMachineReason, refusal)
		step.requeueAfter = time.Minute // a change of the label may cause no watch event here
	}
	switch step.action {
	case begin:
		return r.begin(ctx, s)
	case restartInstance:
		return r.requestRestart(ctx, s)
	case handBack:
		return r.handBack(ctx, s, step)
	case wait:
	}
	setProgressing(remediation, step)
	result, err := r.save(ctx, s)
	return results.Earliest(result, ctrl.Result{RequeueAfter: step.requeueAfter}), err
}
