// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
)

// infrastructure copies the state of the InfraCluster. Without a reference the infrastructure counts as provisioned.
type infrastructure struct {
	adopter
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
		return ownership.ReadFailed(s.infraErr, true)
	}
	if err := p.adopt(ctx, s.cluster, s.infra.Unstructured, "spec.infrastructureRef"); ownership.IsRefused(err) {
		s.infra, s.infraErr = nil, err
		return ownership.ReadFailed(err, true)
	} else if err != nil {
		return ownership.ReadFailed(err, true)
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
