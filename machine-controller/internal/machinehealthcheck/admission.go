// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/budget"
)

// admission holds the Machines whose external remediation a freeze, an outage or a wider budget forbids. For Machines
// that are replaced by their owner, the owner checks it.
type admission struct{ guard *safety.Guard }

func (p admission) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if !s.check.Spec.Remediation.TemplateRef.IsDefined() {
		return reconcile.Result{}, nil
	}
	var result reconcile.Result
	owners, chosen := s.newlyExternal()
	for _, owner := range owners {
		refused, err := p.refused(ctx, s, owner, chosen[owner])
		if err != nil {
			return reconcile.Result{}, err
		}
		for name, refusal := range refused {
			delete(s.decision.Remediate, name)
			s.decision.Held[name] = health.WaitReason(refusal.Message)
			result.RequeueAfter = safety.RetryPeriod
		}
	}
	return result, nil
}

// newlyExternal are the Machines to be handed to an external controller that are not yet, by their controller, and those
// controllers in the order of their first Machine.
func (s *state) newlyExternal() (owners []types.UID, chosen map[types.UID][]*clusterv1.Machine) {
	chosen = map[types.UID][]*clusterv1.Machine{}
	for _, m := range s.targets {
		if !s.decision.Remediate[m.Name] || health.MarkedForOthers(m) {
			continue
		}
		var uid types.UID
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
			uid = owner.UID
		}
		if len(chosen[uid]) == 0 {
			owners = append(owners, uid)
		}
		chosen[uid] = append(chosen[uid], m)
	}
	return owners, chosen
}

// refused returns why Machines must not be remediated now. Only those of a MachineSet have limits of their own.
func (p admission) refused(ctx context.Context, s *state, owner types.UID, machines []*clusterv1.Machine) (map[string]*budget.Refusal, error) {
	if set := s.sets[owner]; set != nil {
		choice, err := p.guard.Replace(ctx, s.cluster, set, machines)
		return choice.Refused, err
	}
	refused := map[string]*budget.Refusal{}
	if refusal := p.guard.Unreachable(s.cluster); refusal != nil {
		for _, m := range machines {
			refused[m.Name] = refusal
		}
	}
	return refused, nil
}
