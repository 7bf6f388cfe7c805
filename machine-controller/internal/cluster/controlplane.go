// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
)

// controlPlane copies the state of the ControlPlane object. Without a reference the control plane is externally managed
// and counts as initialized once the workload cluster has been reached.
type controlPlane struct {
	adopter
	contract *contract.Reader
}

func (p controlPlane) run(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, status := &s.cluster.Spec, &s.cluster.Status
	if !spec.ControlPlaneRef.IsDefined() {
		if s.connection.Connected {
			status.Initialization.ControlPlaneInitialized = new(true)
		}
		return reconcile.Result{}, nil
	}
	s.controlPlane, s.controlPlaneErr = p.contract.ControlPlane(ctx, s.cluster.Namespace, spec.ControlPlaneRef)
	if s.controlPlaneErr != nil {
		return ownership.ReadFailed(s.controlPlaneErr, true)
	}
	if err := p.adopt(ctx, s.cluster, s.controlPlane.Unstructured, "spec.controlPlaneRef"); ownership.IsRefused(err) {
		s.controlPlane, s.controlPlaneErr = nil, err
		return ownership.ReadFailed(err, true)
	} else if err != nil {
		return ownership.ReadFailed(err, true)
	}
	if spec.ControlPlaneEndpoint.Host == "" {
		spec.ControlPlaneEndpoint = s.controlPlane.Endpoint()
	}
	if s.controlPlane.Initialized() {
		status.Initialization.ControlPlaneInitialized = new(true)
	}
	return reconcile.Result{}, nil
}
