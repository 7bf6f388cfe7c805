// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

// step changes the planned sizes in one respect.
type step func(*plan)

// Plan decides the next writes for one MachineDeployment.
func Plan(state State) Decision {
	p := newPlan(state)
	for _, step := range p.steps() {
		step(p)
	}
	return p.decision()
}

// steps lists what applies in this state, in order.
func (p *plan) steps() []step {
	switch {
	case p.state.Deleting:
		return []step{deleteAll}
	case len(p.state.Unseen) > 0:
		return nil
	case p.state.Paused:
		return []step{scaleProportionally}
	case p.current == nil && p.state.blocked():
		return []step{setCreateDisabled, lowerAnnotated, shrink} // a decrease is followed, nothing new begins
	case p.current == nil:
		return []step{
			setCreateDisabled, // first: Machines that are deleted meanwhile must not be created from the old template
			createCurrent,
		}
	case p.state.onDelete():
		return []step{
			setCreateDisabled, // old sets must not replace what a user deletes
			lowerAnnotated,    // a decrease removes the Machines that are annotated for it
			limitCurrent,      // the current set alone is never larger than wanted
			shrinkToExisting,  // an old set does not replace what was deleted
			shrink,            // down to what may exist
			growCurrent,       // fill up with the wanted template
			cleanUp,           // delete old revisions
		}
	default:
		return []step{
			setCreateDisabled, // in case the strategy was OnDelete before
			lowerAnnotated,    // a decrease removes the Machines that are annotated for it
			limitCurrent,      // the current set alone is never larger than wanted
			growOldSets,       // an increase while no new Machine is available
			shrinkOldSets,     // within what may be unavailable
			shrink,            // down to what may exist, whatever is left over
			growCurrent,       // surge
			breakDeadlock,     // when nothing else can make progress
			cleanUp,           // delete old revisions
		}
	}
}

func deleteAll(p *plan) {
	for _, e := range p.entries {
		if !e.Terminating {
			p.extra = append(p.extra, Action{Kind: Delete, Set: e.Name, Reason: "the MachineDeployment is being deleted"})
		}
	}
}

// createCurrent creates the current set: the old sets keep their sizes until it exists.
func createCurrent(p *plan) {
	p.extra = append(p.extra, Action{
		Kind:   CreateCurrent,
		To:     min(p.available(), p.state.Replicas),
		Reason: "no MachineSet has the wanted template",
	})
}

// setCreateDisabled forbids old sets to create Machines under OnDelete.
func setCreateDisabled(p *plan) {
	for _, e := range p.entries {
		forbid := p.state.onDelete() && e != p.current
		switch {
		case e.Terminating:
		case forbid && !e.CreateDisabled:
			p.extra = append(p.extra, Action{Kind: DisableCreate, Set: e.Name, Reason: "old MachineSets do not replace deleted Machines under OnDelete"})
		case !forbid && e.CreateDisabled:
			p.extra = append(p.extra, Action{Kind: EnableCreate, Set: e.Name, Reason: "the MachineSet may create Machines again"})
		}
	}
}

// decision returns the actions of the plan.
func (p *plan) decision() Decision {
	d := Decision{
		SizeAnnotations: p.annotations(),
		RollingOut:      p.rollingOut(),
		Complete:        p.complete(),
		Actions:         p.extra,
	}
	if p.decidesSizes() {
		d.Actions = append(d.Actions, p.sizes()...)
	}
	d.Wait = p.wait(d.Actions)
	return d
}

// decidesSizes reports whether the sizes of the sets were decided at all.
func (p *plan) decidesSizes() bool {
	return !p.state.Deleting && len(p.state.Unseen) == 0 && (p.state.Paused || p.state.blocked() || p.current != nil)
}

// sizes lists the annotated sets first: size annotations that are written after a crash in between would otherwise hide that their set has not
// followed yet.
func (p *plan) sizes() []Action {
	var records, scales []Action
	for _, e := range p.entries {
		switch {
		case e.Terminating || p.deletes(e):
		case e.target != e.Replicas:
			scales = append(scales, Action{Kind: Scale, Set: e.Name, From: e.Replicas, To: e.target, Reason: e.reason()})
		case e.Recorded != p.annotations() && (e == p.current || !e.Empty()):
			records = append(records, Action{Kind: Record, Set: e.Name, Reason: "the size of the MachineDeployment changed"})
		}
	}
	return append(records, scales...)
}

func (p *plan) deletes(e *setPlan) bool {
	for _, action := range p.extra {
		if action.Kind == Delete && action.Set == e.Name {
			return true
		}
	}
	return false
}
