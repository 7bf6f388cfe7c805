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

// admit lets only those Machines be handed to a controller outside that no freeze, no outage
// and no wider budget keeps. For those that their owner replaces, the owner asks.
func (r *Reconciler) admit(ctx context.Context, s *ward) (reconcile.Result, error) {
	if !s.check.Spec.Remediation.TemplateRef.IsDefined() {
		return reconcile.Result{}, nil
	}
	var result reconcile.Result
	owners, chosen := s.unasked()
	for _, owner := range owners {
		refused, err := r.refused(ctx, s, owner, chosen[owner])
		if err != nil {
			return reconcile.Result{}, err
		}
		for name, refusal := range refused {
			delete(s.decision.Remediate, name)
			s.decision.Held[name] = health.Hold(refusal.Message)
			result.RequeueAfter = safety.RetryPeriod
		}
	}
	return result, nil
}

// unasked are the Machines to be handed over that have not been yet, by who controls them, and
// those controllers in the order of their first Machine.
func (s *ward) unasked() (owners []types.UID, chosen map[types.UID][]*clusterv1.Machine) {
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

// refused asks the gate. What is not a MachineSet's has no fleet whose limits could hold it.
func (r *Reconciler) refused(ctx context.Context, s *ward, owner types.UID, machines []*clusterv1.Machine) (map[string]*budget.Refusal, error) {
	if set := s.sets[owner]; set != nil {
		choice, err := r.Guard.Replace(ctx, s.cluster, set, machines)
		return choice.Refused, err
	}
	refused := map[string]*budget.Refusal{}
	if refusal := r.Guard.Unreachable(s.cluster); refusal != nil {
		for _, m := range machines {
			refused[m.Name] = refusal
		}
	}
	return refused, nil
}
