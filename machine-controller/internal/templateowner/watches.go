// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package templateowner

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index"
	"drover.io/runtime/predicates"
)

// reference is what decides which templates a MachineDeployment or MachineSet has claimed.
type reference struct {
	cluster          string
	infra, bootstrap clusterv1.ContractVersionedObjectReference
	watch            string
	paused, deleting bool
}

func referenceOf(object client.Object) reference {
	of := reference{
		watch: object.GetLabels()[clusterv1.WatchLabel], paused: predicates.Paused(nil, object), deleting: object.GetDeletionTimestamp() != nil,
	}
	spec := &clusterv1.MachineSpec{}
	switch o := object.(type) {
	case *clusterv1.MachineDeployment:
		of.cluster, spec = o.Spec.ClusterName, &o.Spec.Template.Spec
	case *clusterv1.MachineSet:
		of.cluster, spec = o.Spec.ClusterName, &o.Spec.Template.Spec
	}
	of.infra, of.bootstrap = spec.InfrastructureRef, spec.Bootstrap.ConfigRef
	return of
}

// clusterState is what decides whether a Cluster becomes an owner of templates. One that is being deleted never does again.
type clusterState struct {
	uid    types.UID
	paused bool
}

func stateOfCluster(object client.Object) clusterState {
	cluster, _ := object.(*clusterv1.Cluster)
	return clusterState{uid: object.GetUID(), paused: predicates.Paused(cluster, object)}
}

// clusterOf is the Cluster of a MachineDeployment or MachineSet.
func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: referenceOf(object).cluster}}}
}

// templateEvents enqueues the Clusters that use a template when it is created, and when its manager changes or it loses an owner.
func (r *Reconciler) templateEvents() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, template *metav1.PartialObjectMetadata, q queue) {
		for _, cluster := range r.clustersOfTemplate(ctx, template) {
			q.AddAfter(reconcile.Request{NamespacedName: cluster}, coalesce.Window)
		}
	}
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			enqueue(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			if losesOwner(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

// losesOwner reports whether a Cluster may have to become an owner of a template again, or at last. An owner that is added is no
// reason: where several Clusters use one template, each of them would be reconciled for each.
func losesOwner(before, after *metav1.PartialObjectMetadata) bool {
	return before.UID != after.UID || before.Labels[clusterv1.WatchLabel] != after.Labels[clusterv1.WatchLabel] ||
		slices.ContainsFunc(before.OwnerReferences, func(owner metav1.OwnerReference) bool { return !contract.HasOwner(after, owner.UID) })
}

// clustersOfTemplate reads from the cache, and copies nothing.
func (r *Reconciler) clustersOfTemplate(ctx context.Context, template *metav1.PartialObjectMetadata) []client.ObjectKey {
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: template.GroupVersionKind().Group, Kind: template.Kind, Name: template.Name}
	var found []client.ObjectKey
	deployments, err := index.MachineDeploymentsOfTemplate(ctx, r.Client, template.Namespace, ref)
	if err != nil {
		return nil
	}
	for _, md := range deployments {
		found = append(found, client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.ClusterName})
	}
	sets, err := index.MachineSetsOfTemplate(ctx, r.Client, template.Namespace, ref)
	if err != nil {
		return nil
	}
	for _, set := range sets {
		found = append(found, client.ObjectKey{Namespace: set.Namespace, Name: set.Spec.ClusterName})
	}
	return found
}
