// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/results"
)

// infrastructure copies the state of the InfraCluster. Without a reference the infrastructure counts as provisioned.
type infrastructure struct {
	client   client.Client
	contract *contract.Reader
}

func (p infrastructure) run(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, status := &s.cluster.Spec, &s.cluster.Status
	if !spec.InfrastructureRef.IsDefined() {
		status.Initialization.InfrastructureProvisioned = new(true)
		return reconcile.Result{}, nil
	}
	s.infra, s.infraErr = p.contract.InfraCluster(ctx, s.cluster.Namespace, spec.InfrastructureRef)
	if s.infraErr != nil {
		return readFailed(s.infraErr)
	}
	if err := adopt(ctx, p.client, s.cluster, s.infra.Unstructured); isRefused(err) {
		s.infra, s.infraErr = nil, err
		return readFailed(err)
	} else if err != nil {
		return readFailed(err)
	}
	if !s.infra.Provisioned() {
		return reconcile.Result{}, nil
	}
	status.Initialization.InfrastructureProvisioned = new(true)
	if spec.ControlPlaneEndpoint.Host == "" {
		spec.ControlPlaneEndpoint = s.infra.Endpoint()
	}
	status.FailureDomains = s.infra.FailureDomains()
	return reconcile.Result{}, nil
}

// readFailed decides what a reconcile does about an object that could not be read.
func readFailed(err error) (reconcile.Result, error) {
	if apierrors.IsNotFound(err) || contract.IsMisconfigured(err) || isRefused(err) {
		return reconcile.Result{RequeueAfter: objectRetry}, nil
	}
	return results.RequeueOnConflict(err) // an adoption that conflicts with a write of the provider is tried again
}
