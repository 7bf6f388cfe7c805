// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/health"
)

// decide asks for the verdict on each target, and then what to do about all of them.
func decide(s *ward, now time.Time) {
	s.findings = make(map[string]health.Finding, len(s.targets))
	// The trigger has been read before, when its errors could be told.
	trigger, _ := health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets))
	situation := health.Situation{Groups: map[string]health.Group{}, Trigger: trigger, Now: now}
	for _, m := range s.targets {
		if name := s.groupOf[m.UID]; name != "" {
			g := s.groups[name]
			situation.Groups[name] = health.Group{Limit: g.limit, InFlight: health.InFlight(g.machines, g.vacancies)}
		}
		s.findings[m.Name] = health.Verdict(health.Input{
			Machine: m, Cluster: s.cluster, Nodes: s.nodes[m.UID], Since: s.since, Checks: s.check.Spec.Checks, Now: now,
		})
		situation.Targets = append(situation.Targets, s.target(m, now))
	}
	s.decision, s.decided = health.Plan(situation), true
}

func (s *ward) target(m *clusterv1.Machine, now time.Time) health.Target {
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

// marked reports whether this check has asked for the Machine's replacement before.
func (s *ward) marked(m *clusterv1.Machine) bool {
	if s.check.Spec.Remediation.TemplateRef.IsDefined() {
		return health.MarkedForOthers(m)
	}
	return health.MarkedForOwner(m)
}
