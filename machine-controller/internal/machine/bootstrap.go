// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
)

// bootstrap learns the name of the Secret that the machine boots with, from the
// BootstrapConfig or from the user, and hands it to the infrastructure provider through
// spec.bootstrap.dataSecretName.
type bootstrap struct {
	client   client.Client
	contract *contract.Reader
	events   *recorder
	// requested shows deletions that the cache does not show yet.
	requested *deletion.Requested
}

func (p bootstrap) run(ctx context.Context, s *state) (reconcile.Result, error) {
	spec, known := &s.machine.Spec.Bootstrap, &s.machine.Status.Initialization
	if !spec.ConfigRef.IsDefined() {
		if spec.DataSecretName != nil {
			known.BootstrapDataSecretCreated = new(true)
		}
		return reconcile.Result{}, nil
	}
	config, err := p.contract.BootstrapConfig(ctx, s.machine.Namespace, spec.ConfigRef)
	s.bootstrap = seen[contract.BootstrapConfig]{config, err}
	if err == nil {
		p.requested.Apply(config.Unstructured)
		err = adopt(ctx, p.client, s.machine, config.Unstructured, "spec.bootstrap.configRef")
	}
	if isRefused(err) {
		s.bootstrap = seen[contract.BootstrapConfig]{err: err}
		p.events.refused(s.machine, clusterv1.MachineBootstrapConfigReadyCondition, err)
	}
	if err != nil {
		return absent(err, spec.DataSecretName == nil && !s.deleting())
	}
	if s.deleting() {
		return reconcile.Result{}, nil
	}
	if spec.DataSecretName == nil && config.DataSecretCreated() && config.DataSecretName() != "" {
		spec.DataSecretName = new(config.DataSecretName())
	}
	if spec.DataSecretName != nil {
		known.BootstrapDataSecretCreated = new(true)
	}
	return reconcile.Result{}, nil
}

// absent decides what a reconcile does about a provider object that could not be read.
// One that does not exist yet may be created without our hearing of it, since only objects
// owned by a Machine wake us, so it is looked for again now and then while it is needed.
func absent(err error, needed bool) (reconcile.Result, error) {
	switch {
	case apierrors.IsNotFound(err) && needed, contract.IsMisconfigured(err), isRefused(err):
		return reconcile.Result{RequeueAfter: absentRetry}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
