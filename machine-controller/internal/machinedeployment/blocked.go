// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/rollout/revision"
)

// observeRolloutBlocked finds out whether the rollout has to wait. It replaces Machines because newer ones are available,
// which is unknown while the Nodes cannot be read; and no Machine can be created from a template that does not exist.
func (r *Reconciler) observeRolloutBlocked(ctx context.Context, s *state) error {
	if refusal := r.Guard.Unreachable(s.cluster); refusal != nil {
		s.rolloutBlocked = refusal.Message
		return nil
	}
	current, _ := revision.FindNewMachineSet(s.deployment, s.sets, r.Clock.Now())
	if current != nil || ptr.Deref(s.deployment.Spec.Paused, false) {
		return nil // the machineset controller checks the templates of an existing MachineSet
	}
	spec := &s.deployment.Spec.Template.Spec
	refs := []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef}
	if spec.Bootstrap.ConfigRef.IsDefined() {
		refs = append(refs, spec.Bootstrap.ConfigRef)
	}
	for _, ref := range refs {
		_, err := r.Templates.Get(ctx, s.deployment.Namespace, ref)
		switch {
		case apierrors.IsNotFound(err), contract.IsMisconfigured(err):
			s.missingTemplate = err.Error()
		case err != nil:
			return err
		}
		if s.missingTemplate != "" {
			s.rolloutBlocked = s.missingTemplate
			return nil
		}
	}
	return nil
}
