// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
)

// kept is the finding of an object whose controllers have done what its deletion needs, and which the finalizers of others keep;
// nil for any other. group is that of its kind. No condition has that: a controller does not write to an object once it has removed its finalizer.
func kept(ref Reference, group string, o metav1.Object) *Finding {
	finalizers := o.GetFinalizers()
	if o.GetDeletionTimestamp().IsZero() || len(finalizers) == 0 || slices.ContainsFunc(finalizers, ofItsController) {
		return nil
	}
	noun, help := "finalizer", "see why its controller does not remove it; if that controller is gone for good, remove it"
	if len(finalizers) > 1 {
		noun, help = "finalizers", "see why their controllers do not remove them; if a controller is gone for good, remove its own"
	}
	return &Finding{
		Object: ref, Condition: metav1.Condition{LastTransitionTime: *o.GetDeletionTimestamp()},
		Meaning: fmt.Sprintf("its deletion waits for nothing but the %s %s, of another project than Drover and Cluster API", noun, strings.Join(finalizers, ", ")),
		Actor:   reason.FinalizerOwner,
		Help:    help + " from metadata.finalizers by hand",
		Command: command("kubectl edit "+resource(schema.GroupVersionKind{Group: group, Kind: ref.Kind})+" {name} --namespace {namespace}", ref),
	}
}

// ofItsController reports whether a finalizer is one of Drover, Cluster API or its providers, or of the API server itself, by its
// domain, as machine.cluster.x-k8s.io and infrastructure.drover.io/machine.
func ofItsController(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	if domain == metav1.FinalizerDeleteDependents || domain == metav1.FinalizerOrphanDependents {
		return true
	}
	return slices.ContainsFunc([]string{"cluster.x-k8s.io", "drover.io"}, func(own string) bool {
		return domain == own || strings.HasSuffix(domain, "."+own)
	})
}

// keptOfGroup is kept for objects of a group whose controllers have known finalizers. Those of a provider of another project may
// have any domain, so its condition Ready is the answer.
func keptOfGroup(o *unstructured.Unstructured) *Finding {
	if group := o.GroupVersionKind().Group; group != clusterv1.GroupVersion.Group && !strings.HasSuffix(group, ".drover.io") {
		return nil
	}
	return kept(referenceOf(o), o.GroupVersionKind().Group, o)
}

// keptObject is that the object of a provider is kept by finalizers of others while the deletion of a Machine waits for it; nil if
// it is not, or cannot be read.
func (f *Finder) keptObject(ctx context.Context, m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference) *Finding {
	if !ref.IsDefined() {
		return nil
	}
	o, err := f.Referenced(ctx, m.Namespace, ref)
	if err != nil || o == nil {
		return nil
	}
	return cmp.Or(keptOfGroup(o), paused(referenceOf(o), o.GroupVersionKind().Group, object.Conditions(o)), deletionUnseen(o))
}

// deletionUnseen is that no manager acts on the deletion of an object of Drover: its manager makes the condition Ready False first;
// nil for any other.
func deletionUnseen(o *unstructured.Unstructured) *Finding {
	awaited := o.GetDeletionTimestamp() != nil && slices.ContainsFunc(o.GetFinalizers(), ofItsController)
	if !awaited || !strings.HasSuffix(o.GroupVersionKind().Group, ".drover.io") || !meta.IsStatusConditionTrue(object.Conditions(o), clusterv1.ReadyCondition) {
		return nil
	}
	return notDeleted(referenceOf(o), *o.GetDeletionTimestamp())
}

// removalFailed is how the message begins with which a provider of Drover says why it cannot delete an instance.
const removalFailed = "deleting instance: "

// ofRemoval reports whether a provider of Drover has written a condition during the deletion of its object: all others are of before.
// Its reason alone does not tell, as a cloud may refuse a creation and a deletion alike.
func ofRemoval(c metav1.Condition) bool {
	return c.Type != clusterv1.MachineDeletingCondition && (c.Reason == infrav1.DeletingReason || c.Reason == infrav1.ClusterUnknownReason ||
		c.Reason == infrav1.IdentityUnknownReason || strings.HasPrefix(c.Message, removalFailed))
}

// reviewRemoval makes the deletion of the object of a provider one that needs action once it is overdue. A condition that is not of
// the deletion means then that no provider runs; those of other projects have reasons of their own.
func (f *Finding) reviewRemoval(o *unstructured.Unstructured, now time.Time) {
	deleted, written := o.GetDeletionTimestamp(), ofRemoval(f.Condition)
	continues := written && (f.Condition.Reason == infrav1.DeletingReason || f.Condition.Reason == infrav1.InstancePendingReason)
	if continues && f.Condition.LastTransitionTime.Before(deleted) { // of an instance that was stopped before
		f.Condition.LastTransitionTime = *deleted
	}
	switch own := strings.HasSuffix(o.GroupVersionKind().Group, ".drover.io"); {
	case continues && now.Sub(f.Condition.LastTransitionTime.Time) > maxCreation:
		f.remains()
	case written || deleted == nil || now.Sub(deleted.Time) <= maxCreation:
	case own || !f.needsAction():
		f.Actor, f.Help, f.Command = reason.Installer, "see whether the provider of the object runs", "kubectl drover check"
	}
}

// remains makes a deletion one that the cloud does not end.
func (f *Finding) remains() {
	f.Actor, f.Command = reason.CloudOwner, ""
	f.Help = "see in the cloud what keeps the instance; where it is gone there, see whether the provider runs"
}
