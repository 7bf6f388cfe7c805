// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/safety"
)

// freeze decides whether the deployment is frozen, and writes that together with all that has changed outside its status.
func (r *Reconciler) freeze(ctx context.Context, before *clusterv1.MachineDeployment, s *state) error {
	settings, err := r.Guard.PolicyFor(ctx, s.deployment)
	if err != nil {
		return err
	}
	s.deadline = settings.ProgressDeadline
	freezer := machineowner.Freezer{Client: r.Client, Guard: r.Guard, Events: r.Events}
	s.freeze, err = freezer.Run(ctx, before, s.deployment, safety.OwnerOfDeployment(s.deployment), s.machines)
	return err
}
