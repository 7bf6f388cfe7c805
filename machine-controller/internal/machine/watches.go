// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/rollout/revision"
)

// The mappers below read from the cache. One that fails triggers no reconcile; the periodic resync
// makes up for it.

func (r *Reconciler) machinesOfCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return r.machinesOfConnection(client.ObjectKeyFromObject(cluster))
}

func (r *Reconciler) machinesOfConnection(cluster client.ObjectKey) []reconcile.Request {
	machines, err := index.MachinesOfCluster(context.Background(), r.Client, cluster)
	if err != nil {
		return nil
	}
	return requests(machines)
}

// machinesOfNode finds the Machines of a Node by providerID and, for a Node without one, by the
// annotation that the first sync has set on it, or by its name and addresses. A Node of another
// providerID is of interest to the Machine of its name that has no Node: its host may not register.
func (r *Reconciler) machinesOfNode(cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	var found []reconcile.Request
	if node.Spec.ProviderID != "" {
		machines, err := index.MachinesByProviderID(context.Background(), r.Client, node.Spec.ProviderID)
		if err != nil {
			return nil
		}
		for _, m := range machines {
			if m.Namespace == cluster.Namespace && m.Spec.ClusterName == cluster.Name {
				found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
			}
		}
	}
	if name := node.Annotations[clusterv1.MachineAnnotation]; len(found) == 0 && name != "" {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: name}})
	}
	switch {
	case len(found) > 0:
		return found
	case node.Spec.ProviderID == "":
		return r.machinesMatchingNode(cluster, node)
	default:
		return r.machineWaitingForName(cluster, node.Name)
	}
}

func (r *Reconciler) machineWaitingForName(cluster client.ObjectKey, name string) []reconcile.Request {
	m, key := &clusterv1.Machine{}, client.ObjectKey{Namespace: cluster.Namespace, Name: name}
	err := r.Client.Get(context.Background(), key, m, client.UnsafeDisableDeepCopy)
	if err != nil || m.Spec.ClusterName != cluster.Name || m.Status.NodeRef.IsDefined() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

func (r *Reconciler) machinesMatchingNode(cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	machines, err := index.MachinesOfCluster(context.Background(), r.Client, cluster)
	if err != nil {
		return nil
	}
	return requests(slices.DeleteFunc(machines, func(m *clusterv1.Machine) bool { return !isNodeOf(m, node) }))
}

func (r *Reconciler) machinesOfDeployment(ctx context.Context, deployment client.Object) []reconcile.Request {
	list := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, list, client.InNamespace(deployment.GetNamespace()),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: deployment.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return found
}

func (r *Reconciler) machinesOfSet(ctx context.Context, set client.Object) []reconcile.Request {
	machines, err := index.MachinesOf(ctx, r.Client, set.GetNamespace(), set.GetUID())
	if err != nil {
		return nil
	}
	return requests(machines)
}

// revisionChanged passes the changes of a MachineSet's revision, as it becomes the current one again: its Nodes lose the taint of
// an outdated revision. The MachineDeployment gets its revision first, and its event may come before that of the MachineSet.
func revisionChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return revision.Of(e.ObjectOld) != revision.Of(e.ObjectNew) },
	}
}

// upToDateInputChanged passes the changes of a MachineDeployment on which the UpToDate condition of its Machines depends.
func upToDateInputChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.MachineDeployment)
			after, ok2 := e.ObjectNew.(*clusterv1.MachineDeployment)
			if !ok || !ok2 || revision.Of(before) != revision.Of(after) || !before.Spec.Rollout.After.Equal(&after.Spec.Rollout.After) {
				return true
			}
			same, _ := revision.EqualTemplate(&before.Spec.Template, &after.Spec.Template)
			return !same
		},
	}
}

func requests(machines []*clusterv1.Machine) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(machines))
	for _, m := range machines {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
	}
	return all
}

// controllerOf reads the controller of an object, if it is of the kind; nil when there is none, or
// when another object has its name now.
func controllerOf[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, object client.Object, kind string) (*T, error) {
	reference := metav1.GetControllerOfNoCopy(object)
	if reference == nil || reference.Kind != kind {
		return nil, nil //nolint:nilnil // an object need not have an owner
	}
	found := new(T)
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: reference.Name}
	if err := c.Get(ctx, key, P(found), client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // the garbage collector is about to follow
		}
		return nil, fmt.Errorf("reading %s %q: %w", kind, reference.Name, err)
	}
	if P(found).GetUID() != reference.UID {
		return nil, nil //nolint:nilnil // it was replaced by another of its name
	}
	return found, nil
}
