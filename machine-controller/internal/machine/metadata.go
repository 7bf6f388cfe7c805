// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/ownership"
)

// metadata keeps the machine's finalizer, its cluster label and, for a stand-alone machine
// alone, the owner reference to its Cluster; it restores them when they are removed.
type metadata struct {
	// live reads from the API server itself.
	live client.Reader
}

func (p metadata) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if !s.deleting() {
		controllerutil.AddFinalizer(s.machine, clusterv1.MachineFinalizer)
	}
	if s.machine.Labels == nil {
		s.machine.Labels = map[string]string{}
	}
	s.machine.Labels[clusterv1.ClusterNameLabel] = s.machine.Spec.ClusterName
	if isStandalone(s.machine) && s.cluster.UID != "" { // a Cluster that does not exist cannot be an owner
		if gone, err := ownership.Gone(ctx, p.live, s.machine.OwnerReferences, s.cluster); err != nil || gone {
			return reconcile.Result{RequeueAfter: staleCacheRetry}, err
		}
		s.machine.OwnerReferences = withOwner(s.machine.OwnerReferences, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(),
			Kind:       "Cluster",
			Name:       s.cluster.Name,
			UID:        s.cluster.UID,
		})
	}
	return reconcile.Result{}, nil
}

// isStandalone reports whether no MachineSet, MachinePool or control plane owns the machine
// or is about to adopt it.
func isStandalone(machine *clusterv1.Machine) bool {
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

// withOwner returns the references with the one that is wanted among them, in its present form.
func withOwner(references []metav1.OwnerReference, wanted metav1.OwnerReference) []metav1.OwnerReference {
	for i, reference := range references {
		if reference.UID == wanted.UID {
			references[i] = wanted
			return references
		}
	}
	return append(references, wanted)
}
