// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
)

// hold is why the rollout has to wait; empty if it need not. It replaces Machines because they
// are well, which says nothing of Machines that cannot be seen.
func (r *Reconciler) hold(f *fleet) string {
	if refusal := r.Guard.Unreachable(f.cluster); refusal != nil {
		return refusal.Message
	}
	return ""
}

// freeze asks the policy whether the deployment has so many Machines that no more may be made,
// and writes that down together with whatever else has changed outside status.
func (r *Reconciler) freeze(ctx context.Context, before *clusterv1.MachineDeployment, f *fleet) error {
	frost, turned, err := r.Guard.Freeze(ctx, f.deployment, safety.FleetOf(f.deployment), f.machines)
	if err != nil {
		return err
	}
	f.frost = frost
	policy, err := r.Guard.PolicyFor(ctx, f.deployment)
	if err != nil {
		return err
	}
	f.deadline = policy.ProgressDeadline
	if err := patch.Main(ctx, r.Client, before, f.deployment); err != nil {
		return fmt.Errorf("patching MachineDeployment: %w", err)
	}
	if turned && frost.Label {
		frozen(r.Events, f.deployment, frost.Message)
	} else if turned {
		thawed(r.Events, f.deployment)
	}
	return nil
}
