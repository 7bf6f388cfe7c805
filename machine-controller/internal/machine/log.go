// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// withLogger adds the Cluster and the owners of the machine to the logger of the context.
func withLogger(ctx context.Context, s *state) context.Context {
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(s.machine.Namespace, s.machine.Spec.ClusterName))
	if s.deployment != nil {
		log = log.WithValues("MachineDeployment", klog.KObj(s.deployment))
	}
	if s.set != nil {
		log = log.WithValues("MachineSet", klog.KObj(s.set))
	}
	return ctrl.LoggerInto(ctx, log)
}

// logWritten logs the changes outside the status that were written.
func logWritten(ctx context.Context, before, after *clusterv1.Machine) {
	log := ctrl.LoggerFrom(ctx)
	if before.Spec.ProviderID != after.Spec.ProviderID {
		log.Info("set providerID", "providerID", after.Spec.ProviderID)
	}
	if controllerutil.ContainsFinalizer(before, clusterv1.MachineFinalizer) && !controllerutil.ContainsFinalizer(after, clusterv1.MachineFinalizer) {
		log.Info("deleted Machine")
	}
}

// logStatusWritten logs the changes of the status that were written.
func logStatusWritten(ctx context.Context, before, after *clusterv1.Machine) {
	log := ctrl.LoggerFrom(ctx)
	if name := after.Status.NodeRef.Name; before.Status.NodeRef.Name != name {
		log.Info("Node joined", "Node", klog.KRef("", name), "providerID", after.Spec.ProviderID)
	}
	if before.Status.Phase != after.Status.Phase {
		log.Info("Machine phase changed", "phase", after.Status.Phase, "previousPhase", before.Status.Phase)
	}
}
