// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replacementBudget is how many Machines of the set, or of its MachineDeployment, may be replaced at
// once, by the policy that is in force.
func (r *Reconciler) replacementBudget(ctx context.Context, set *clusterv1.MachineSet, md *clusterv1.MachineDeployment, replicas int) (int, error) {
	var owner client.Object = set
	if md != nil {
		owner = md
	}
	policy, err := r.Guard.PolicyFor(ctx, owner)
	return policy.PerOwner.Of(replicas), err
}

// checkGuard lets only those go that no wider budget, no freeze and no outage keeps, and tells
// why once.
func (r *Reconciler) checkGuard(ctx context.Context, s *state, chosen *remediationPlan) error {
	if len(chosen.now) == 0 {
		return nil
	}
	choice, err := r.Guard.Replace(ctx, s.cluster, s.set, chosen.now)
	if err != nil {
		chosen.now = nil
		return err
	}
	var now []*clusterv1.Machine
	news := false
	for _, m := range chosen.now {
		if slices.Contains(choice.Allowed, m.Name) {
			now = append(now, m)
			continue
		}
		chosen.wait = append(chosen.wait, m)
		if refusal := choice.Refused[m.Name]; refusal != nil {
			chosen.message = refusal.Message
			news = news || conditions.GetMessage(m, clusterv1.MachineOwnerRemediatedCondition) != refusal.Message
		}
	}
	chosen.now = now
	if news {
		replacementRefused(r.Events, s.set, chosen.message)
	}
	return nil
}
