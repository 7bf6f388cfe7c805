// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package predicates decides which objects and events a manager leaves alone: those of another manager, by the
// watch filter, and those that are paused.
package predicates

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WatchFilter is the value of --watch-filter. It divides the objects of one API server between
// managers: those whose label cluster.x-k8s.io/watch-filter has the value are this manager's.
// The empty value is a manager that has all objects to itself.
type WatchFilter string

// Matches reports whether the manager reconciles the object. One without the label is of no manager.
func (w WatchFilter) Matches(object metav1.Object) bool {
	return w == "" || object.GetLabels()[clusterv1.WatchLabel] == string(w)
}

// Foreign reports whether the object is labelled for another manager. It is then neither
// adopted, changed nor deleted, not even if one of ours refers to it or controls it. An object
// without the label is not foreign: if one of ours controls it, it gets the label.
func (w WatchFilter) Foreign(object metav1.Object) bool {
	value, labelled := object.GetLabels()[clusterv1.WatchLabel]
	return w != "" && labelled && value != string(w)
}

// MatchingPredicate passes the events of the objects that the manager reconciles.
func (w WatchFilter) MatchingPredicate() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return w.Matches(object) })
}

// ChildPredicate passes the events of objects that one of ours may control.
func (w WatchFilter) ChildPredicate() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return !w.Foreign(object) })
}

// CheckNoneForeign names the first foreign object by name and the way out; nil if there is none. The order of the list, which may
// be that of an index and another one each time, does not matter.
func CheckNoneForeign[T client.Object](w WatchFilter, kind string, objects []T) error {
	var first error
	least := ""
	for _, object := range objects {
		if err := w.CheckForeign(kind, object); err != nil && (first == nil || object.GetName() < least) {
			first, least = err, object.GetName()
		}
	}
	return first
}

// CheckForeign is why nothing is done about a foreign object; nil for any other.
func (w WatchFilter) CheckForeign(kind string, object metav1.Object) error {
	if !w.Foreign(object) {
		return nil
	}
	return &ForeignError{
		Kind: kind, Name: object.GetName(), Value: object.GetLabels()[clusterv1.WatchLabel], Own: w, Owners: object.GetOwnerReferences(),
	}
}

// ForeignError means that an object is labelled for another manager.
type ForeignError struct {
	Kind, Name, Value string
	Own               WatchFilter
	// Owners are the owner references of the object.
	Owners []metav1.OwnerReference
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %q has the label %s: %q, so another manager reconciles it: set the label to %q, or take the object out of this one's ownership",
		e.Kind, e.Name, clusterv1.WatchLabel, e.Value, string(e.Own))
}

// Inherit returns the labels of an object that is made for the parent: with the parent's
// watch-filter label, whatever the labels of its template are, so that the manager of the parent watches the
// child. A parent without the label leaves the labels as they are.
func Inherit(labels map[string]string, parent metav1.Object) map[string]string {
	value, labelled := parent.GetLabels()[clusterv1.WatchLabel]
	if !labelled {
		return labels
	}
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.WatchLabel] = value
	return labels
}

// Inherited reports whether the child has the parent's watch-filter label, if the parent has one.
func Inherited(child, parent metav1.Object) bool {
	value, labelled := parent.GetLabels()[clusterv1.WatchLabel]
	return !labelled || child.GetLabels()[clusterv1.WatchLabel] == value
}

// FilterReconciler passes to the reconciler only the objects that are the manager's, whatever event or mapping
// a request came from.
func FilterReconciler[T client.Object](w WatchFilter, r reconcile.ObjectReconciler[T]) reconcile.ObjectReconciler[T] {
	return only[T]{w, r}
}

type only[T client.Object] struct {
	watch WatchFilter
	next  reconcile.ObjectReconciler[T]
}

func (o only[T]) Reconcile(ctx context.Context, object T) (reconcile.Result, error) {
	if !o.watch.Matches(object) {
		return reconcile.Result{}, nil
	}
	return o.next.Reconcile(ctx, object)
}
