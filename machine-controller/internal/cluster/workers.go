// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/runtime/predicates"
)

// workers are the objects of a Cluster that create worker machines, each counted at the highest
// level of ownership.
type workers struct {
	deployments []*clusterv1.MachineDeployment
	// sets and machines are those that stand alone.
	sets     []*clusterv1.MachineSet
	machines []*clusterv1.Machine
	// controlPlane are the machines of the control plane.
	controlPlane []*clusterv1.Machine
	// all are the machines of every kind, to wait for when the Cluster is deleted.
	all []*clusterv1.Machine
}

// foreign names the first worker that is another manager's; nil if there is none.
func (w workers) foreign(watch predicates.WatchFilter) error {
	return cmp.Or(
		predicates.CheckNoneForeign(watch, "MachineDeployment", w.deployments),
		predicates.CheckNoneForeign(watch, "MachineSet", w.sets),
		predicates.CheckNoneForeign(watch, "Machine", w.all),
	)
}

// status adds up the counters and the versions of all workers.
func (w workers) status() *clusterv1.WorkersStatus {
	var desired, replicas, ready, available, upToDate int32
	versions := kubeversion.OfMachines(w.machines)
	for _, md := range w.deployments {
		add(&desired, md.Spec.Replicas)
		add(&replicas, md.Status.Replicas)
		add(&ready, md.Status.ReadyReplicas)
		add(&available, md.Status.AvailableReplicas)
		add(&upToDate, md.Status.UpToDateReplicas)
		versions = append(versions, md.Status.Versions...)
	}
	for _, set := range w.sets {
		add(&desired, set.Spec.Replicas)
		add(&replicas, set.Status.Replicas)
		add(&ready, set.Status.ReadyReplicas)
		add(&available, set.Status.AvailableReplicas)
		add(&upToDate, set.Status.UpToDateReplicas)
		versions = append(versions, set.Status.Versions...)
	}
	for _, m := range w.machines {
		desired++
		replicas++
		ready += countIf(m, clusterv1.MachineReadyCondition)
		available += countIf(m, clusterv1.MachineAvailableCondition)
		upToDate += countIf(m, clusterv1.MachineUpToDateCondition)
	}
	return &clusterv1.WorkersStatus{
		DesiredReplicas: &desired, Replicas: &replicas, ReadyReplicas: &ready, AvailableReplicas: &available, UpToDateReplicas: &upToDate,
		Versions: kubeversion.Count(versions, kubeversion.MaxOfCluster),
	}
}

func add(total, n *int32) {
	if n != nil {
		*total += *n
	}
}

// countIf returns 1 if a condition of the Machine is True, and 0 otherwise.
func countIf(m *clusterv1.Machine, condition string) int32 {
	if conditions.IsTrue(m, condition) {
		return 1
	}
	return 0
}

func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	switch o := object.(type) {
	case *clusterv1.MachineDeployment:
		name = o.Spec.ClusterName
	case *clusterv1.MachineSet:
		name = o.Spec.ClusterName
	case *clusterv1.Machine:
		name = o.Spec.ClusterName
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}

// clusterOfStandalone leaves out what a MachineDeployment or MachineSet counts, except while it
// is being deleted: a Cluster that is deleted waits for the last of them. Machines of a control
// plane are counted one by one, whatever controls them.
func clusterOfStandalone(ctx context.Context, object client.Object) []reconcile.Request {
	_, controlPlane := object.GetLabels()[clusterv1.MachineControlPlaneLabel]
	if metav1.GetControllerOfNoCopy(object) != nil && object.GetDeletionTimestamp() == nil && !controlPlane {
		return nil
	}
	return clusterOf(ctx, object)
}
