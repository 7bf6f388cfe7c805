// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinetemplate is the one reconciler for the infrastructure machine templates of every cloud. It
// sets in the condition Ready whether machines can be created from a template, as far as that can be found out without
// creating one, and writes status.capacity and status.nodeInfo, which the cluster autoscaler reads to scale a group up
// from zero. It creates nothing.
package machinetemplate

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/predicates"
)

const (
	// readyInterval is how often a template that is ready is inspected: images get deregistered.
	readyInterval = 30 * time.Minute
	// notReadyInterval is how often another is: a missing image may get uploaded.
	notReadyInterval = 5 * time.Minute
)

// Reconciler reconciles the templates of one cloud.
type Reconciler[M driver.Machine, C any] struct {
	Cloud    driver.Cloud[M, C]
	Client   client.Client
	Accounts *account.Cache[M, C]
	// WatchFilter limits the templates to those whose watch-filter label has this value; empty means all.
	WatchFilter predicates.WatchFilter
	Workers     int
	// Jitter returns a number in [0, 1).
	Jitter func() float64
}

// Register adds the controller to a manager.
func (r *Reconciler[M, C]) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Cloud.Name+"machinetemplate").
		For(r.Cloud.NewTemplate(), builder.WithPredicates(r.WatchFilter.MatchingPredicate(), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
}

// Reconcile writes the capacity of a machine of the template, and whether one can be created.
func (r *Reconciler[M, C]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	template := r.Cloud.NewTemplate()
	if err := r.Client.Get(ctx, request.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.WatchFilter.Matches(template) || !template.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, nil
	}
	before := template.DeepCopyObject().(driver.Template[M])
	offer, cause := r.inspect(ctx, template)
	setOffer(template.GetStatus(), offer)
	result, cause := r.settle(template, offer, cause)
	if err := r.save(ctx, before, template); err != nil {
		return ctrl.Result{}, err
	}
	return result, cause
}

// settle sets Ready and returns when to inspect the template again. A cause that is returned is retried with back-off.
func (r *Reconciler[M, C]) settle(template driver.Template[M], offer machineProperties, cause error) (ctrl.Result, error) {
	if cause == nil {
		setValid(template, offer)
		return r.after(readyInterval), nil
	}
	problem := problemOf(cause)
	if problem.Unreported {
		return ctrl.Result{RequeueAfter: problem.Retry}, nil
	}
	setInvalid(template, problem, cause)
	switch {
	case problem.Terminal:
		return r.after(notReadyInterval), nil
	case problem.Retry > 0:
		return r.after(problem.Retry), nil
	default:
		return ctrl.Result{}, cause
	}
}

// after adds up to a fifth to a pause, so that not all templates are inspected at the same time.
func (r *Reconciler[M, C]) after(pause time.Duration) ctrl.Result {
	return ctrl.Result{RequeueAfter: pause + time.Duration(r.Jitter()*float64(pause/5))}
}

// save writes what changed, and logs a change of Ready.
func (r *Reconciler[M, C]) save(ctx context.Context, before, after driver.Template[M]) error {
	if equality.Semantic.DeepEqual(before.GetStatus(), after.GetStatus()) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if was, is := ready(before.GetStatus()), ready(after.GetStatus()); was.Status != is.Status || was.Reason != is.Reason {
		message := "template became not ready"
		if is.Status == metav1.ConditionTrue {
			message = "template became ready"
		}
		ctrl.LoggerFrom(ctx).Info(message, "reason", is.Reason, "message", is.Message)
	}
	return nil
}
