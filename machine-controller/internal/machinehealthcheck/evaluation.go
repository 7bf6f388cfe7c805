// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
)

// evaluation decides which targets are unhealthy, and which of those may be remediated now.
type evaluation struct{ clock clock.PassiveClock }

func (p evaluation) run(_ context.Context, s *state) (reconcile.Result, error) {
	now := p.clock.Now()
	s.findings = make(map[string]health.Finding, len(s.targets))
	// The trigger was parsed before, where its error is reported.
	trigger, _ := health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets))
	input := health.PlanInput{Groups: map[string]health.Group{}, Trigger: trigger, Now: now}
	for _, m := range s.targets {
		if name := s.groupOf[m.UID]; name != "" {
			if _, counted := input.Groups[name]; !counted {
				g := s.groups[name]
				input.Groups[name] = health.Group{Limit: g.limit, InFlight: health.InFlight(g.machines, g.inFlight)}
			}
		}
		s.findings[m.Name] = health.Evaluate(health.Input{
			Machine: m, Cluster: s.cluster, Nodes: s.nodes[m.UID], Since: s.since, Checks: s.check.Spec.Checks, Now: now,
		})
		input.Targets = append(input.Targets, s.target(m, now))
	}
	s.decision, s.decided = health.Plan(input), true
	if at := s.decision.Next; !at.IsZero() {
		return reconcile.Result{RequeueAfter: max(at.Sub(now), time.Millisecond)}, nil
	}
	return reconcile.Result{}, nil
}

func (s *state) target(m *clusterv1.Machine, now time.Time) health.Target {
	zone := m.Status.FailureDomain
	if zone == "" {
		zone = m.Spec.FailureDomain
	}
	return health.Target{
		Name:      m.Name,
		Finding:   s.findings[m.Name],
		Zone:      zone,
		Group:     s.groupOf[m.UID],
		Marked:    s.marked(m),
		Holds:     health.Holds(m),
		NotBefore: health.NotBefore(m, now),
		Created:   m.CreationTimestamp.Time,
	}
}

// marked reports whether this check has marked the Machine for remediation before.
func (s *state) marked(m *clusterv1.Machine) bool {
	if s.check.Spec.Remediation.TemplateRef.IsDefined() {
		return health.MarkedForOthers(m)
	}
	return health.MarkedForOwner(m)
}
