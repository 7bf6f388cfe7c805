// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/rollout"
)

// refusal is why actions for a generation of a MachineDeployment could not be applied. They are tried again after a while, and
// the conditions have the error until then: otherwise they would change twice with each attempt.
type refusal struct {
	generation          int64
	notApplied, stalled error
}

// lastRefusal is why actions for this generation of a MachineDeployment could not be applied a moment ago; nil if all could.
func (r *Reconciler) lastRefusal(md *clusterv1.MachineDeployment) (notApplied, stalled error) {
	if last, was := r.refused.Get(md.UID); was && last.generation == md.Generation {
		return last.notApplied, last.stalled
	}
	return nil, nil
}

// skipRefused leaves out the actions that have to wait for the next attempt of one that was refused a moment ago: all, or only the
// records of sizes where that was one.
func (s *state) skipRefused() {
	if s.notApplied == nil {
		return
	}
	s.decision.Actions = slices.DeleteFunc(s.decision.Actions, func(i rollout.Action) bool { return s.stalled != nil || !stalls(i.Kind) })
}

// stalls reports whether the rollout does not continue without an action of that kind. That is all but a record of the size: also an
// old MachineSet under OnDelete that goes on creating replaces each Machine that a user deletes by one of the old template.
func stalls(kind rollout.Kind) bool { return kind != rollout.Record }

// setNotApplied records why an action cannot be applied, unless another of its kind was recorded before.
func (s *state) setNotApplied(kind rollout.Kind, err error) {
	s.notApplied = cmp.Or(s.notApplied, err)
	if stalls(kind) {
		s.stalled = cmp.Or(s.stalled, err)
	}
}
