// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"drover.io/runtime/quantity"
)

// growCurrent adds replicas to the current set as far as surge allows.
func growCurrent(p *plan) {
	cur := p.current
	if cur.target < cur.Replicas || cur.DeleteAnnotated > 0 && cur.leaving() > 0 {
		// A larger size now could keep a Machine that is to be removed.
		return
	}
	n := min(p.available(), p.state.Replicas-cur.target)
	cur.raise(n, fmt.Sprintf("%d of at most %s exist", p.state.ceiling()-p.available(), quantity.Of(p.state.ceiling(), "Machine")))
}

// growOldSets gives an increase of spec.replicas to the old sets for as long as no Machine of the current set is available:
// capacity that is needed now must not depend on a template that may be broken. An increase in the same write as the
// template is the current set's, which was created with it.
func growOldSets(p *plan) {
	increase := int32(0)
	var grown []*setPlan
	for _, e := range p.oldSets {
		if p.sizeOutdated(e) && e.Available > 0 {
			increase = max(increase, p.state.Replicas-e.Recorded.Desired)
			grown = append(grown, e)
		}
	}
	if p.current.Available > 0 || !p.sizeOutdated(p.current) {
		return // a set that was created for the present size has its whole share already
	}
	reason := fmt.Sprintf("spec.replicas was increased to %d and no new Machine is available yet", p.state.Replicas)
	for i, n := range shares(min(increase, p.available()), grown) {
		grown[i].raise(n, reason)
	}
}

// shrinkOldSets takes replicas from old sets: those with annotated Machines first, then those with unavailable ones, then the
// oldest. There are two limits. What is left of the old sets together with the available part of the current set is never
// less than what must be available, so a template whose Machines do not become available stops the rollout. And even if each
// deletion affected an available Machine, enough would stay available.
func shrinkOldSets(p *plan) {
	if p.state.blocked() {
		return
	}
	removable := p.removable()
	for _, part := range []func(*setPlan) int32{(*setPlan).annotatedLeft, (*setPlan).unavailable, (*setPlan).all} {
		for _, e := range p.oldSets {
			n := min(part(e), e.target, removable)
			n = min(n, e.target-e.minSize(p.slack()))
			removable -= e.lower(n, "the current MachineSet takes over")
		}
	}
}

// removable is how many old replicas may go, whether they are available or not.
func (p *plan) removable() int32 {
	kept := min(p.current.Available, p.current.Replicas, p.current.target)
	for _, e := range p.oldSets {
		kept += e.target
	}
	return max(kept-p.state.minAvailable(), 0)
}

// minSize is the smallest size that costs at most slack more available Machines.
func (e *setPlan) minSize(slack int32) int32 {
	loss := e.loss() + slack
	switch {
	case e.losesAll():
		return 0
	case e.Unobserved && e.Machines < e.Replicas:
		// Its Machines may have been created and not be seen yet.
		return e.target
	case slack >= 0 && loss >= e.Available:
		return 0
	case slack < 0:
		// Only replicas for which there is no Machine.
		return min(e.target, e.liveAtMost())
	default:
		return min(e.target, e.liveAtMost()-loss)
	}
}

// breakDeadlock takes one replica from an old set with unavailable Machines when nothing is in progress, the current set is
// available and nothing was planned: only the worst-case arithmetic of shrinkOldSets prevents progress then, and Machines of
// old sets are not remediated.
func breakDeadlock(p *plan) {
	cur := p.current
	if cur.Available != cur.Machines || p.state.blocked() {
		return
	}
	for _, e := range p.entries {
		if e.inProgress() || e.Unobserved || e.target != e.Replicas {
			return
		}
	}
	for _, e := range p.oldSets {
		if e.Available < e.Replicas {
			e.lower(1, "the rollout is stuck behind unavailable Machines of an old MachineSet")
			return
		}
	}
}
