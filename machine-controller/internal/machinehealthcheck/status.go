// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

// maxTargets is how many names the API lets status.targets hold.
const maxTargets = 10000

// setStatus counts the targets and derives the conditions. Counts that could not be taken
// stay as they were.
func setStatus(w *ward) {
	status := &w.check.Status
	status.ObservedGeneration = w.check.Generation
	if w.trouble == nil {
		status.ExpectedMachines = new(int32(len(w.targets)))
		status.Targets = nil
		for _, m := range w.targets[:min(len(w.targets), maxTargets)] {
			status.Targets = append(status.Targets, m.Name)
		}
	}
	switch {
	case w.decided:
		status.CurrentHealthy = new(int32(w.decision.Healthy))
		status.RemediationsAllowed = new(int32(w.decision.Allowed))
	case !w.stale:
		status.RemediationsAllowed = new(int32(0))
	}
	setPaused(w.check, false)
	setRemediationAllowed(w)
	setFailureDomainsHealthy(w)
	setTargetsExclusive(w)
}
