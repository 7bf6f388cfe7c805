// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/managementclaim"
)

// provision takes the next step of an instance that its cloud does not finish by itself. Accounts.Driver has checked
// that the credentials lead to the account that the machine is pinned to, and the driver checks the identity again.
// Nothing is done before the providerID is stored, so that a step never precedes the record of its instance, nor while
// another management cluster acts on the Cluster.
func (r *Reconciler[M, C]) provision(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if !s.observed.StepDue || s.created || s.observed.State == driver.Stopping || s.observed.State == driver.Terminated ||
		managementclaim.Forbids(s.cluster) {
		return ctrl.Result{}, nil
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return r.failed(ctx, s, err)
	}
	if cloud.Provision == nil {
		return ctrl.Result{}, nil
	}
	observed, err := cloud.Provision(ctx, s.identity())
	switch {
	case driver.IsNotFound(err):
		observed = driver.Instance{State: driver.Terminated}
	case err != nil:
		return r.failed(ctx, s, &machinestatus.CallError{Doing: "provisioning", Err: err})
	}
	s.observed = observed
	return ctrl.Result{}, nil
}
