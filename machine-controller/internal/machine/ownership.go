// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ownership keeps the machine's finalizer, its cluster label and, for a machine that stands
// alone, the owner reference to its Cluster, also when somebody removes them.
type ownership struct{}

func (ownership) run(_ context.Context, s *subject) (reconcile.Result, error) {
	if !s.deleting() {
		controllerutil.AddFinalizer(s.machine, clusterv1.MachineFinalizer)
	}
	if s.machine.Labels == nil {
		s.machine.Labels = map[string]string{}
	}
	s.machine.Labels[clusterv1.ClusterNameLabel] = s.machine.Spec.ClusterName
	if standsAlone(s.machine) && s.cluster.UID != "" { // a Cluster that is gone owns nothing any more
		s.machine.OwnerReferences = withOwner(s.machine.OwnerReferences, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(),
			Kind:       "Cluster",
			Name:       s.cluster.Name,
			UID:        s.cluster.UID,
		})
	}
	return reconcile.Result{}, nil
}

// standsAlone reports whether no MachineSet, MachinePool or control plane owns the machine
// or is about to adopt it.
func standsAlone(machine *clusterv1.Machine) bool {
	if metav1.GetControllerOf(machine) != nil {
		return false
	}
	for _, label := range []string{clusterv1.MachineSetNameLabel, clusterv1.MachinePoolNameLabel, clusterv1.MachineControlPlaneNameLabel} {
		if _, ok := machine.Labels[label]; ok {
			return false
		}
	}
	return true
}

// withOwner returns the references with owner among them, in its present form.
func withOwner(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	for i, reference := range references {
		if reference.UID == owner.UID {
			references[i] = owner
			return references
		}
	}
	return append(references, owner)
}
