// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/infra-providers/internal/managementclaim"
	"drover.io/runtime/predicates"
)

// ofMachine finds the remediation of a Machine, which has its name. One that the cache does not have yet comes by
// itself.
func (r *Reconciler[M, C]) ofMachine(ctx context.Context, machine client.Object) []ctrl.Request {
	return r.requestForRemediation(ctx, client.ObjectKeyFromObject(machine))
}

// ofInfrastructure finds the remediation of the Machine that owns an infrastructure machine.
func (r *Reconciler[M, C]) ofInfrastructure(ctx context.Context, infra client.Object) []ctrl.Request {
	owner := inframachine.OwnerReference(infra)
	if owner == nil {
		return nil
	}
	return r.requestForRemediation(ctx, client.ObjectKey{Namespace: infra.GetNamespace(), Name: owner.Name})
}

func (r *Reconciler[M, C]) requestForRemediation(ctx context.Context, key client.ObjectKey) []ctrl.Request {
	if err := r.Client.Get(ctx, key, &infrav1.RestartRemediation{}); err != nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}

// ofCluster finds the remediations of a Cluster.
func (r *Reconciler[M, C]) ofCluster(ctx context.Context, cluster client.Object) (all []ctrl.Request) {
	list := &infrav1.RestartRemediationList{}
	inCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster.GetNamespace()), inCluster); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the remediations of a Cluster")
		return nil
	}
	for _, remediation := range list.Items {
		all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&remediation)})
	}
	return all
}

// forPredicates accepts changes that others may make. This controller itself writes the status.
func forPredicates(watch predicates.WatchFilter) builder.Predicates {
	return builder.WithPredicates(
		watch.MatchingPredicate(),
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}),
	)
}

// onMachineChange accepts changes that a remediation waits for. Machines that are new have none.
func onMachineChange() builder.Predicates {
	awaited := func(object client.Object) [3]bool {
		machine := object.(*clusterv1.Machine)
		_, paused := machine.Annotations[clusterv1.PausedAnnotation]
		return [3]bool{
			meta.IsStatusConditionFalse(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition),
			machine.DeletionTimestamp.IsZero(),
			paused,
		}
	}
	return updates(predicates.Changed(awaited))
}

// infraMachinePredicate accepts changes that pause or hold a remediation, and the end of an infrastructure machine.
func infraMachinePredicate() builder.Predicates {
	changed := predicates.Changed(func(object client.Object) [2]bool {
		_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
		return [2]bool{object.GetDeletionTimestamp().IsZero(), paused}
	})
	changed.CreateFunc = func(event.CreateEvent) bool { return false }
	return builder.WithPredicates(changed)
}

// onClusterChange accepts changes that pause or hold remediations.
func onClusterChange() builder.Predicates {
	awaited := func(object client.Object) [3]bool {
		cluster := object.(*clusterv1.Cluster)
		return [3]bool{
			ptr.Deref(cluster.Spec.Paused, false),
			meta.IsStatusConditionFalse(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition),
			managementclaim.Forbids(cluster),
		}
	}
	return updates(predicates.Changed(awaited))
}

// updates accepts only the updates of a predicate: all remediations are reconciled when the controller starts.
func updates(changed predicate.Funcs) builder.Predicates {
	changed.CreateFunc = func(event.CreateEvent) bool { return false }
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.WithPredicates(changed)
}
