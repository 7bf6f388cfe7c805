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

// bootstrap copies the name of the Secret with the bootstrap data from the BootstrapConfig to
// spec.bootstrap.dataSecretName, where the infrastructure provider reads it; a user can set it instead.
type bootstrap struct {
	client   client.Client
	contract *contract.Reader
	events   *recorder
	// requested shows deletions that the cache does not show yet.
	requested *deletion.Requested
}

func (p bootstrap) run(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, initialization := &s.machine.Spec.Bootstrap, &s.machine.Status.Initialization
	if !spec.ConfigRef.IsDefined() {
		if spec.DataSecretName != nil {
			initialization.BootstrapDataSecretCreated = new(true)
		}
		return reconcile.Result{}, nil
	}
	config, err := p.contract.BootstrapConfig(ctx, s.machine.Namespace, spec.ConfigRef)
	s.bootstrap = observed[contract.BootstrapConfig]{config, err}
	if err == nil {
		p.requested.Apply(config.Unstructured)
		err = adopt(ctx, p.client, s.machine, config.Unstructured, "spec.bootstrap.configRef")
	}
	if ownership.IsRefused(err) {
		s.bootstrap = observed[contract.BootstrapConfig]{err: err}
		p.events.refused(s.machine, clusterv1.MachineBootstrapConfigReadyCondition, err)
	}
	if err != nil {
		return ownership.ReadFailed(err, spec.DataSecretName == nil && !s.deleting())
	}
	if s.deleting() {
		return reconcile.Result{}, nil
	}
	if spec.DataSecretName == nil && config.DataSecretCreated() && config.DataSecretName() != "" {
		spec.DataSecretName = new(config.DataSecretName())
	}
	if spec.DataSecretName == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for bootstrap data", config.GetKind(), klog.KObj(config))
		return reconcile.Result{}, nil
	}
	initialization.BootstrapDataSecretCreated = new(true)
	return reconcile.Result{}, nil
}
