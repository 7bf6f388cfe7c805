// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/managementclaim"
	"drover.io/runtime/predicates"
)

// RequestsOfMachine returns the function that finds the infrastructure machine of a kind that a Machine refers to.
func RequestsOfMachine(of client.Object, scheme *runtime.Scheme) handler.MapFunc {
	kind, err := apiutil.GVKForObject(of, scheme)
	return func(_ context.Context, object client.Object) []ctrl.Request {
		machine := object.(*clusterv1.Machine)
		ref := machine.Spec.InfrastructureRef
		if err != nil || ref.Kind != kind.Kind || ref.APIGroup != kind.Group {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}}}
	}
}

// requestsOfCluster are the infrastructure machines of a Cluster.
func (r *Reconciler[M, C]) requestsOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	list := r.Cloud.NewMachineList()
	inCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster.GetNamespace()), inCluster); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the machines of a Cluster", "Cluster", klog.KObj(cluster))
		return nil
	}
	return requests(list)
}

// forPredicates accepts changes that a user or the core may make. This controller itself writes the status.
func forPredicates(watch predicates.WatchFilter) builder.Predicates {
	return builder.WithPredicates(
		watch.MatchingPredicate(),
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, ownerOrFinalizersChanged()),
	)
}

// ownerOrFinalizersChanged accepts the adoption by a Machine and the stored claim.
func ownerOrFinalizersChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return OwnerReference(e.ObjectOld) == nil && OwnerReference(e.ObjectNew) != nil ||
			len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers())
	}}
}

// onMachineChange accepts only changes of what this controller reads from a Machine. Any reconcile of a machine that has
// its instance reads it from the cloud. Neither the providerID in the Machine nor the deletion of the Machine before that
// of the infrastructure machine is a reason to.
func onMachineChange() builder.Predicates {
	return builder.WithPredicates(predicates.Changed(machineInputsOf))
}

// machineInputsOf is all of a Machine that an infrastructure machine is created from.
func machineInputsOf(object client.Object) machineInputs {
	machine := object.(*clusterv1.Machine)
	return machineInputs{
		uid:               machine.UID,
		clusterName:       machine.Spec.ClusterName,
		bootstrapData:     ptr.Deref(machine.Spec.Bootstrap.DataSecretName, ""),
		failureDomain:     machine.Spec.FailureDomain,
		infrastructureRef: machine.Spec.InfrastructureRef,
	}
}

type machineInputs struct {
	uid                                       types.UID
	clusterName, bootstrapData, failureDomain string
	infrastructureRef                         clusterv1.ContractVersionedObjectReference
}

func onClusterChange() builder.Predicates {
	return builder.WithPredicates(predicates.Changed(clusterInputsOf))
}

// clusterInputsOf is all of a Cluster that machines wait for.
func clusterInputsOf(object client.Object) [3]bool {
	cluster := object.(*clusterv1.Cluster)
	return [3]bool{
		ptr.Deref(cluster.Spec.Paused, false),
		ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false),
		managementclaim.Forbids(cluster),
	}
}

func requests(list client.ObjectList) []ctrl.Request {
	var out []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return out
}

// Changes is the source of machines whose instances changed in the cloud. The zero value is ready. A change before the
// start of the controller is dropped, because the controller reconciles every machine at its start.
type Changes struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// Start implements source.Source.
func (c *Changes) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = queue
	return nil
}

// Notify queues the machine of an instance.
func (c *Changes) Notify(id driver.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{Namespace: id.Owner.Namespace, Name: id.Name}})
	}
}
