// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/runtime/predicates"
)

// maxTargets is how many names the API allows in status.targets.
const maxTargets = 10000

// setStatus counts the targets and derives the conditions. Counts that could not be taken
// stay as they were.
func setStatus(s *state) {
	status := &s.check.Status
	status.ObservedGeneration = s.check.Generation
	if s.specError == nil {
		status.ExpectedMachines = new(int32(len(s.targets)))
		status.Targets = nil
		for _, m := range s.targets[:min(len(s.targets), maxTargets)] {
			status.Targets = append(status.Targets, m.Name)
		}
	}
	switch {
	case s.decided:
		status.CurrentHealthy = new(int32(s.decision.Healthy))
		status.RemediationsAllowed = new(int32(s.decision.Allowed))
	case !s.stale:
		status.RemediationsAllowed = new(int32(0))
	}
	conditions.Set(s.check, predicates.PausedCondition(s.cluster, s.check, "MachineHealthCheck"))
	setRemediationAllowed(s)
	setFailureDomainsHealthy(s)
	setTargetsExclusive(s)
}
