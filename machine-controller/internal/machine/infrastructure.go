// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
)

// infrastructure follows the InfraMachine until its virtual machine exists, then copies
// providerID, addresses and failure domain from it.
type infrastructure struct {
	client   client.Client
	contract *contract.Reader
	// asked remembers what is being deleted before the cache shows it.
	asked *coalesce.Pace
}

func (p infrastructure) run(ctx context.Context, s *subject) (reconcile.Result, error) {
	machine := s.machine
	infra, err := p.contract.InfraMachine(ctx, machine.Namespace, machine.Spec.InfrastructureRef)
	s.infra = seen[contract.InfraMachine]{infra, err}
	if err != nil {
		provisioned := machine.Status.Initialization.InfrastructureProvisioned != nil
		return absent(err, !provisioned && !s.deleting())
	}
	leave(p.asked, infra.Unstructured)
	if !s.deleting() {
		if err := adopt(ctx, p.client, machine, infra.Unstructured); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !infra.Provisioned() || infra.ProviderID() == "" {
		return reconcile.Result{}, nil
	}
	machine.Spec.ProviderID = infra.ProviderID()
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	if addresses := infra.Addresses(); len(addresses) > 0 {
		machine.Status.Addresses = addresses
	}
	if domain := infra.FailureDomain(); domain != "" {
		machine.Status.FailureDomain = domain
		if infra.Contract == contract.V1Beta1 {
			machine.Spec.FailureDomain = domain
		}
	}
	return reconcile.Result{}, nil
}
