// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/health"
)

// decide asks for the verdict on each target, and then what to do about all of them.
func decide(w *ward, now time.Time) {
	w.findings = make(map[string]health.Finding, len(w.targets))
	// The trigger has been read before, when its errors could be told.
	trigger, _ := health.ParseTrigger(w.check.Spec.Remediation.TriggerIf, len(w.targets))
	situation := health.Situation{Groups: map[string]health.Group{}, Trigger: trigger, Now: now}
	for _, m := range w.targets {
		if name := w.groupOf[m.UID]; name != "" {
			g := w.groups[name]
			situation.Groups[name] = health.Group{Limit: g.limit, InFlight: health.InFlight(g.machines, g.vacancies)}
		}
		w.findings[m.Name] = health.Verdict(health.Input{
			Machine: m, Cluster: w.cluster, Nodes: w.nodes[m.UID], Since: w.since, Checks: w.check.Spec.Checks, Now: now,
		})
		situation.Targets = append(situation.Targets, w.target(m, now))
	}
	w.decision, w.decided = health.Plan(situation), true
}

func (w *ward) target(m *clusterv1.Machine, now time.Time) health.Target {
	zone := m.Status.FailureDomain
	if zone == "" {
		zone = m.Spec.FailureDomain
	}
	return health.Target{
		Name:      m.Name,
		Finding:   w.findings[m.Name],
		Zone:      zone,
		Group:     w.groupOf[m.UID],
		Marked:    w.marked(m),
		Holds:     health.Holds(m),
		NotBefore: health.NotBefore(m, now),
		Created:   m.CreationTimestamp.Time,
	}
}

// marked reports whether this check has asked for the Machine's replacement before.
func (w *ward) marked(m *clusterv1.Machine) bool {
	if w.check.Spec.Remediation.TemplateRef.IsDefined() {
		return health.MarkedForOthers(m)
	}
	return health.MarkedForOwner(m)
}
