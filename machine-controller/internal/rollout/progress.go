// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"drover.io/runtime/quantity"
)

// rollingOut is true until only the current set has, or is to have, Machines.
func (p *plan) rollingOut() bool {
	if p.current == nil {
		return true
	}
	return slices.ContainsFunc(p.oldSets, func(e *setPlan) bool { return !e.Empty() })
}

// complete is true once nothing is left to do or to wait for.
func (p *plan) complete() bool {
	cur := p.current
	return cur != nil && len(p.state.Unseen) == 0 && !p.rollingOut() && !cur.inProgress() &&
		cur.Replicas == p.state.Replicas && cur.Available == cur.Replicas
}

// cleanUp deletes empty old sets of a complete rollout, the lowest revision
// first, and keeps as many as the history limit.
func cleanUp(p *plan) {
	if !p.complete() {
		return
	}
	var old []*setPlan
	for _, e := range p.oldSets {
		if !e.Terminating && !e.Unobserved {
			old = append(old, e)
		}
	}
	slices.SortStableFunc(old, func(x, y *setPlan) int { return cmp.Compare(x.Revision, y.Revision) })
	excess := len(old) - int(max(p.state.HistoryLimit, 0))
	for _, e := range old[:max(excess, 0)] {
		p.extra = append(p.extra, Action{Kind: Delete, Set: e.Name, Reason: "the rollout is complete and the MachineSet is empty"})
	}
}

// wait explains an unfinished rollout that has nothing to do. The checks are
// in the order in which an operator should examine them.
func (p *plan) wait(actions []Action) Wait {
	if p.state.Deleting {
		return Wait{}
	}
	if len(p.state.Unseen) > 0 {
		return Wait{WaitingForCache, fmt.Sprintf("the last change of MachineSet %q has not come back yet", p.state.Unseen[0])}
	}
	if !p.rollingOut() {
		return Wait{}
	}
	if p.state.Paused {
		return Wait{WaitPaused, "spec.paused is true; set it to false to go on"}
	}
	if p.state.blocked() {
		return Wait{WaitBlocked, p.state.Blocked}
	}
	for _, action := range actions {
		if action.Kind == Scale || action.Kind == CreateCurrent {
			return Wait{}
		}
	}
	return p.idle()
}

func (p *plan) idle() Wait {
	if missing := p.current.Replicas - p.current.Available; missing > 0 {
		return Wait{WaitingForNewMachines, fmt.Sprintf("%d of %s of MachineSet %q %s not available yet",
			missing, quantity.Of(p.current.Replicas, "Machine"), p.current.Name, quantity.Verb(missing, "is", "are"))}
	}
	for _, e := range p.entries {
		if e.inProgress() || e.Unobserved || e.Terminating {
			return Wait{WaitingForMachineSet, fmt.Sprintf("MachineSet %q has %d desired and %s; %d %s being deleted",
				e.Name, e.Replicas, quantity.Of(e.Reported, "reported Machine"), e.Deleting, quantity.Verb(e.Deleting, "is", "are"))}
		}
	}
	if p.state.onDelete() {
		return Wait{WaitingForDeletion, "Machines of old MachineSets are replaced after they are deleted (OnDelete)"}
	}
	return Wait{WaitingForAvailability, fmt.Sprintf("at least %s must stay available", quantity.Of(p.state.minAvailable(), "Machine"))}
}
