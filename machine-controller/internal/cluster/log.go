// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// logWritten logs the changes outside the status that were written.
func logWritten(ctx context.Context, before, after *clusterv1.Cluster) {
	log := ctrl.LoggerFrom(ctx)
	if endpoint := after.Spec.ControlPlaneEndpoint; before.Spec.ControlPlaneEndpoint != endpoint {
		log.Info("set controlPlaneEndpoint", "endpoint", endpoint.String())
	}
	if controllerutil.ContainsFinalizer(before, clusterv1.ClusterFinalizer) && !controllerutil.ContainsFinalizer(after, clusterv1.ClusterFinalizer) {
		log.Info("deleted Cluster")
	}
}

// logStatusWritten logs the changes of the status that were written. The connection to the workload cluster and the
// claim on it are logged by package workload.
func logStatusWritten(ctx context.Context, before, after *clusterv1.Cluster) {
	log := ctrl.LoggerFrom(ctx)
	was, is := before.Status.Initialization, after.Status.Initialization
	if ptr.Deref(is.InfrastructureProvisioned, false) && !ptr.Deref(was.InfrastructureProvisioned, false) {
		log.Info("Cluster infrastructure provisioned")
	}
	if ptr.Deref(is.ControlPlaneInitialized, false) && !ptr.Deref(was.ControlPlaneInitialized, false) {
		log.Info("Cluster control plane initialized")
	}
	if before.Status.Phase != after.Status.Phase {
		log.Info("Cluster phase changed", "phase", after.Status.Phase, "previousPhase", before.Status.Phase)
	}
}
