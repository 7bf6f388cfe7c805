// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
)

// observeRolloutBlocked finds out whether the rollout has to wait. It replaces Machines because they are
// well, which says nothing of Machines that cannot be seen; and nothing can take their place
// while a template that new ones would be made from does not exist.
func (r *Reconciler) observeRolloutBlocked(ctx context.Context, s *state) error {
	if refusal := r.Guard.Unreachable(s.cluster); refusal != nil {
		s.rolloutBlocked = refusal.Message
		return nil
	}
	current, _ := revision.FindCurrent(s.deployment, s.sets, r.Clock.Now())
	if current != nil || ptr.Deref(s.deployment.Spec.Paused, false) {
		return nil // the MachineSet looks for the templates of the Machines that it makes
	}
	spec := &s.deployment.Spec.Template.Spec
	refs := []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef}
	if spec.Bootstrap.ConfigRef.IsDefined() {
		refs = append(refs, spec.Bootstrap.ConfigRef)
	}
	for _, ref := range refs {
		_, err := r.Templates.Get(ctx, s.deployment.Namespace, ref)
		switch {
		case apierrors.IsNotFound(err):
			s.missingTemplate = fmt.Sprintf("%s %q does not exist in namespace %q: create it, or name another in spec.template", ref.Kind, ref.Name, s.deployment.Namespace)
		case contract.IsMisconfigured(err):
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

// freeze asks the policy whether the deployment has so many Machines that no more may be made,
// and writes that down together with whatever else has changed outside status.
func (r *Reconciler) freeze(ctx context.Context, before *clusterv1.MachineDeployment, s *state) error {
	freeze, turned, err := r.Guard.Freeze(ctx, s.deployment, safety.OwnerOfDeployment(s.deployment), s.machines)
	if err != nil {
		return err
	}
	s.freeze = freeze
	policy, err := r.Guard.PolicyFor(ctx, s.deployment)
	if err != nil {
		return err
	}
	s.deadline = policy.ProgressDeadline
	if err := patch.Main(ctx, r.Client, before, s.deployment); err != nil {
		return fmt.Errorf("patching MachineDeployment: %w", err)
	}
	if turned && freeze.Label {
		freezeBegan(r.Events, s.deployment, freeze.Message)
	} else if turned {
		freezeEnded(r.Events, s.deployment)
	}
	return nil
}
