// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/ownership"
)

// infrastructure follows the InfraMachine until its virtual machine exists, then copies
// providerID, addresses and failure domain from it.
type infrastructure struct {
	client   client.Client
	contract *contract.Reader
	events   *recorder
	// requested shows deletions that the cache does not show yet.
	requested *deletion.Requested
}

func (p infrastructure) run(ctx context.Context, s *state) (reconcile.Result, error) {
	machine := s.machine
	infra, err := p.contract.InfraMachine(ctx, machine.Namespace, machine.Spec.InfrastructureRef)
	s.infra = observed[contract.InfraMachine]{infra, err}
	if err == nil {
		p.requested.Apply(infra.Unstructured)
		err = adopt(ctx, p.client, machine, infra.Unstructured, "spec.infrastructureRef")
	}
	if ownership.IsRefused(err) {
		s.infra = observed[contract.InfraMachine]{err: err}
		p.events.refused(machine, clusterv1.MachineInfrastructureReadyCondition, err)
	}
	if err != nil {
		provisioned := machine.Status.Initialization.InfrastructureProvisioned != nil
		return ownership.ReadFailed(err, !provisioned && !s.deleting())
	}
	if !infra.Provisioned() || infra.ProviderID() == "" {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the instance", infra.GetKind(), klog.KObj(infra))
		return reconcile.Result{}, nil
	}
	machine.Spec.ProviderID = infra.ProviderID()
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	if addresses, reported := infra.Addresses(); reported {
		machine.Status.Addresses = addresses
	}
	if domain, reported := infra.FailureDomain(); reported {
		machine.Status.FailureDomain = domain
		if infra.Contract == contract.V1Beta1 {
			machine.Spec.FailureDomain = domain
		}
	}
	return reconcile.Result{}, nil
}
