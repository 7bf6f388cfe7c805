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
	generation           int64
	notApplied, notSized error
}

// lastRefusal is why actions for this generation of a MachineDeployment could not be applied a moment ago; nil if all could.
func (r *Reconciler) lastRefusal(md *clusterv1.MachineDeployment) (notApplied, notSized error) {
	if last, was := r.refused.Get(md.UID); was && last.generation == md.Generation {
		return last.notApplied, last.notSized
	}
	return nil, nil
}

// holdBack leaves out the actions that have to wait for the next attempt of one that was refused a moment ago: all, or those that
// change no size where the refused one changes none either.
func (s *state) holdBack() {
	if s.notApplied == nil {
		return
	}
	s.decision.Actions = slices.DeleteFunc(s.decision.Actions, func(i rollout.Action) bool { return s.notSized != nil || !sizes(i.Kind) })
}

// sizes reports whether the rollout continues only with an action of that kind.
func sizes(kind rollout.Kind) bool {
	return kind == rollout.CreateCurrent || kind == rollout.Scale || kind == rollout.Delete
}

// setNotApplied records why an action cannot be applied, unless another of its kind was recorded before.
func (s *state) setNotApplied(kind rollout.Kind, err error) {
	s.notApplied = cmp.Or(s.notApplied, err)
	if sizes(kind) {
		s.notSized = cmp.Or(s.notSized, err)
	}
}
