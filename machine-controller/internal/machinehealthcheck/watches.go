// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/index"
	"drover.io/runtime/predicates"
)

// The mappers below read from the cache. One that fails triggers no reconcile; the periodic resync
// makes up for it.

// checks are the requests for the checks of a Cluster that pass. A workload cluster can cause many events of its Nodes, so
// nothing is copied here.
func (r *Reconciler) checks(ctx context.Context, cluster client.ObjectKey, pass func(*clusterv1.MachineHealthCheck) bool) []reconcile.Request {
	all, err := index.MachineHealthChecksOfCluster(ctx, r.Client, cluster)
	if err != nil {
		return nil
	}
	var found []reconcile.Request
	for _, check := range all {
		if pass(check) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		}
	}
	return found
}

func (r *Reconciler) checksOfConnection(cluster client.ObjectKey) []reconcile.Request {
	return r.checks(context.Background(), cluster, func(*clusterv1.MachineHealthCheck) bool { return true })
}

func (r *Reconciler) checksOfCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return r.checksOfConnection(client.ObjectKeyFromObject(cluster))
}

func (r *Reconciler) checksOfDeployment(_ context.Context, object client.Object) []reconcile.Request {
	md, ok := object.(*clusterv1.MachineDeployment)
	if !ok {
		return nil
	}
	return r.checksOfConnection(client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.ClusterName})
}

// otherChecks are the other checks of the same Cluster: a check that is created, changed or deleted
// can change which Machines are their targets.
func (r *Reconciler) otherChecks(ctx context.Context, object client.Object) []reconcile.Request {
	check, ok := object.(*clusterv1.MachineHealthCheck)
	if !ok {
		return nil
	}
	cluster := client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName}
	return r.checks(ctx, cluster, func(c *clusterv1.MachineHealthCheck) bool { return c.UID != check.UID })
}

// checksOfMachine compiles no selector, as the handlers of events of all namespaces wait for it: a reconcile does.
func (r *Reconciler) checksOfMachine(ctx context.Context, object client.Object) []reconcile.Request {
	m, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	cluster := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}
	return r.checks(ctx, cluster, func(c *clusterv1.MachineHealthCheck) bool { return r.selectors.MaySelect(c, m) })
}

// checksOfNode maps the Node to its Machines, by providerID or, for a Node that has none, by the
// annotation that names its Machine, and these to their checks.
func (r *Reconciler) checksOfNode(cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	ctx := context.Background()
	var machines []*clusterv1.Machine
	if node.Spec.ProviderID != "" {
		found, err := index.MachinesByProviderID(ctx, r.Client, node.Spec.ProviderID)
		if err != nil {
			return nil
		}
		machines = found
	} else if name := node.Annotations[clusterv1.MachineAnnotation]; name != "" {
		m := &clusterv1.Machine{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, m); err != nil {
			return nil
		}
		machines = append(machines, m)
	}
	var requests []reconcile.Request
	for _, m := range machines {
		if m.Namespace == cluster.Namespace && m.Spec.ClusterName == cluster.Name {
			requests = append(requests, r.checksOfMachine(ctx, m)...)
		}
	}
	return requests
}

// aggregated merges many events of a source into one request.
func aggregated(from source.Source) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		return from.Start(ctx, delayedQueue{queue})
	})
}

// delayedQueue is a queue that delays what is added, to merge it with more of the same.
type delayedQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Add adds the request after a moment.
func (q delayedQueue) Add(request reconcile.Request) { q.AddAfter(request, coalesce.Window) }

// clusterReadyChanged passes the changes of the conditions of a Cluster without which none of its Machines is evaluated.
func clusterReadyChanged() predicate.Predicate {
	type state struct{ infrastructure, controlPlane bool }
	changed := predicates.Changed(func(object client.Object) state {
		cluster, ok := object.(*clusterv1.Cluster)
		return state{
			ok && conditions.IsTrue(cluster, clusterv1.ClusterInfrastructureReadyCondition),
			ok && conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition),
		}
	})
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return changed
}

// healthInputChanged passes the changes of a Machine on which a finding, or a budget, can depend.
func healthInputChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Machine)
		after, ok2 := e.ObjectNew.(*clusterv1.Machine)
		return !ok || !ok2 ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			before.Spec.ProviderID != after.Spec.ProviderID ||
			before.Status.NodeRef != after.Status.NodeRef ||
			before.Status.FailureDomain != after.Status.FailureDomain ||
			!maps.Equal(before.Labels, after.Labels) ||
			!maps.Equal(before.Annotations, after.Annotations) ||
			!maps.Equal(statuses(before), statuses(after))
	}}
}

// statuses are the conditions of a Machine, without their messages. The reason counts for those about its
// remediation: a Machine that cannot be replaced uses no place of the budget.
func statuses(m *clusterv1.Machine) map[string]string {
	all := make(map[string]string, len(m.Status.Conditions))
	for _, condition := range m.Status.Conditions {
		all[condition.Type] = string(condition.Status)
		switch condition.Type {
		case clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition:
			all[condition.Type] += "/" + condition.Reason
		}
	}
	return all
}
