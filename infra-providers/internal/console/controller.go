// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package console is the one reconciler that explains why a host does not become a Node: once its instance has run for some
// minutes and its Machine has no Node, the console is read through the driver of its cloud, and what it says about the
// bootstrap is written into the condition HostJoined of the infrastructure machine, without secrets.
//
// It changes nothing in the cloud, and decides nothing: whether such a Machine is replaced is up to a MachineHealthCheck. A
// machine whose Machine has its Node in time costs no call and no write.
package console

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/managementclaim"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
	"drover.io/runtime/tracing"
)

// minInterval and maxInterval are the pauses between two reads of one console. In between it is a quarter of the time that
// the instance runs.
const minInterval, maxInterval = time.Minute, 15 * time.Minute

// Reconciler reads the consoles of the machines of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud  driver.Cloud[M, C]
	Client client.Client
	// Live reads without a cache.
	Live     client.Reader
	Accounts *account.Cache[M, C]
	Events   events.EventRecorder
	Now      func() time.Time
	// WatchFilter limits the machines to those whose watch-filter label has this value; empty means all.
	WatchFilter predicates.WatchFilter
	Workers     int
	// After is how long an instance has run when its console is read for the first time.
	After time.Duration
	// Tracer emits spans about Machines; nil is off.
	Tracer *tracing.Tracer
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	machines := inframachine.RequestsOfMachine(r.Cloud.NewMachine(), mgr.GetScheme())
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"console").
		For(r.Cloud.NewMachine(), forPredicates(r.WatchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machines), onMachineChange()).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, r.Workers/4)}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile reads the console of a machine that is late.
func (r *Reconciler[M, C]) Reconcile(ctx context.Context, machine M) (ctrl.Result, error) {
	since, runs := runningSince(machine)
	if !r.WatchFilter.Matches(machine) || !machine.GetDeletionTimestamp().IsZero() || !runs || reportedByCloud(machine) {
		return ctrl.Result{}, nil
	}
	owner, cluster, err := r.owners(ctx, machine)
	switch {
	case err != nil, owner == nil, owner.Status.NodeRef.IsDefined() && joinedCondition(machine) == nil:
		return ctrl.Result{}, err
	case predicates.Paused(cluster, machine), managementclaim.Forbids(cluster):
		return ctrl.Result{RequeueAfter: maxInterval}, nil
	case owner.Status.NodeRef.IsDefined():
		return r.joined(ctx, machine)
	}
	age := r.Now().Sub(since)
	if left := r.After - age; left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return r.explain(ctx, machine, owner, cluster, min(max(age/4, minInterval), maxInterval))
}

// joined reports that a host joined which was late.
func (r *Reconciler[M, C]) joined(ctx context.Context, machine M) (ctrl.Result, error) {
	before := machine.DeepCopyObject().(M)
	machinestatus.SetHostJoined(machine, metav1.ConditionTrue, infrav1.JoinedReason, "")
	return results.RequeueOnConflict(r.write(ctx, before, machine))
}

// explain reads the console and writes what it says.
func (r *Reconciler[M, C]) explain(ctx context.Context, machine M, owner *clusterv1.Machine, cluster *clusterv1.Cluster, interval time.Duration) (ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: interval}
	cloud, err := r.Accounts.Driver(ctx, machine)
	if err != nil || cloud.Console == nil {
		return again, nil //nolint:nilerr // the machine's own reconciler reports credentials that do not work
	}
	ctx = tracing.NewContext(ctx, r.Tracer.Trace(owner).Within(tracing.CreateMachine))
	output, err := cloud.Console(ctx, identity(machine, cluster))
	switch problem := errorreason.Classify(err); {
	case err == nil:
	case driver.IsNotFound(err), driver.IsNotOwned(err), driver.IsAccountMismatch(err):
		return again, nil // as reported in Ready
	case problem.Unreported, problem.Transient && joinedCondition(machine) != nil:
		return again, nil // what the console had before explains more
	}
	found := explanation{status: metav1.ConditionUnknown, reason: infrav1.ConsoleUnavailableReason}
	if err != nil {
		found.message = "the console cannot be read: " + err.Error()
	} else {
		secrets, err := r.secrets(ctx, machine.GetNamespace(), owner)
		if err != nil {
			return ctrl.Result{}, err
		}
		found = explain(parse(output), secrets)
	}
	before := machine.DeepCopyObject().(M)
	machinestatus.SetHostJoined(machine, found.status, found.reason, found.message)
	if err := r.write(ctx, before, machine); err != nil {
		return results.RequeueOnConflict(err)
	}
	r.record(ctx, before, machine, owner)
	return again, nil
}

// secrets reads what must not be shown from the Secret with the bootstrap data. Without that Secret nothing is shown.
func (r *Reconciler[M, C]) secrets(ctx context.Context, namespace string, owner *clusterv1.Machine) (redactor, error) {
	secret := &corev1.Secret{}
	name := ptr.Deref(owner.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return redactor{all: true}, nil
	}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return redactor{all: true}, nil
	}
	return newRedactor(secret.Data["redact"]), err
}

// write stores the condition, unless the machine was changed since it was read.
func (r *Reconciler[M, C]) write(ctx context.Context, before, after M) error {
	last, next := joinedCondition(before), joinedCondition(after)
	if last != nil && *last == *next {
		return nil
	}
	lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, after, lock))
}

// record logs what is new and creates an event of the Machine, where its user looks first.
func (r *Reconciler[M, C]) record(ctx context.Context, before, after M, owner *clusterv1.Machine) {
	last, next := joinedCondition(before), joinedCondition(after)
	if last != nil && last.Reason == next.Reason {
		return
	}
	ctrl.LoggerFrom(ctx).Info("no Node of the instance yet", "Machine", klog.KObj(owner), "reason", next.Reason, "message", next.Message)
	r.Events.Eventf(owner, after, corev1.EventTypeWarning, next.Reason, "ReadConsole", "%s", errorreason.TruncateNote(next.Message))
}

// owners reads the Machine and the Cluster of a machine; nil for what does not exist.
func (r *Reconciler[M, C]) owners(ctx context.Context, machine M) (*clusterv1.Machine, *clusterv1.Cluster, error) {
	owner, err := inframachine.Owner(ctx, r.Client, machine)
	if err != nil || owner == nil {
		return nil, nil, err
	}
	cluster := &clusterv1.Cluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: machine.GetNamespace(), Name: owner.Spec.ClusterName}, cluster)
	if apierrors.IsNotFound(err) {
		return owner, nil, nil
	}
	return owner, cluster, err
}

// identity names the instance.
func identity[M driver.Machine](machine M, cluster *clusterv1.Cluster) driver.Identity {
	owner := driver.Owner{Namespace: machine.GetNamespace()}
	if cluster != nil {
		owner.Name, owner.UID = cluster.Name, cluster.UID
	}
	return inframachine.Identity(machine, owner)
}

// runningSince is since when the instance of a machine is seen to run.
func runningSince[M driver.Machine](machine M) (since time.Time, runs bool) {
	ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return ready.LastTransitionTime.Time, true
}

// reportedByCloud reports whether HostJoined comes from a cloud that sees the inside of its instances.
func reportedByCloud[M driver.Machine](machine M) bool {
	joined := joinedCondition(machine)
	return joined != nil && (joined.Reason == infrav1.HostFailedReason || joined.Reason == infrav1.JoinedReason)
}

func joinedCondition[M driver.Machine](machine M) *metav1.Condition {
	return meta.FindStatusCondition(machine.GetStatus().Conditions, infrav1.HostJoinedCondition)
}
