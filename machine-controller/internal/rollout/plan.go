// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

// step changes the planned sizes in one respect.
type step func(*book)

// Plan decides the next writes for one MachineDeployment.
func Plan(state State) Decision {
	b := newBook(state)
	for _, step := range b.steps() {
		step(b)
	}
	return b.decision()
}

// steps lists what applies in this state, in order.
func (b *book) steps() []step {
	switch {
	case b.state.Deleting:
		return []step{deleteAll}
	case len(b.state.Unseen) > 0:
		return nil
	case b.state.Paused:
		return []step{followSize}
	case b.current == nil && b.state.held():
		return []step{honourMarks, shrink} // a decrease goes on, nothing new begins
	case b.current == nil:
		return []step{createCurrent}
	case b.state.onDelete():
		return []step{
			switchCreation, // old sets must not replace what somebody deletes
			honourMarks,    // a decrease takes the Machines that were picked for it
			fitCurrent,     // the current set alone is never larger than wanted
			dropVacancies,  // an old set gives up what was deleted
			shrink,         // down to what may exist
			growCurrent,    // fill up with the wanted template
			cleanUp,        // forget old revisions
		}
	default:
		return []step{
			switchCreation, // in case the strategy was OnDelete before
			honourMarks,    // a decrease takes the Machines that were picked for it
			fitCurrent,     // the current set alone is never larger than wanted
			growProven,     // an increase during an unproven rollout
			shrinkOlds,     // within what may be unavailable
			shrink,         // down to what may exist, whatever is left over
			growCurrent,    // surge
			breakDeadlock,  // when nothing else can ever move
			cleanUp,        // forget old revisions
		}
	}
}

func deleteAll(b *book) {
	for _, e := range b.entries {
		if !e.Terminating {
			b.extra = append(b.extra, Intent{Kind: Delete, Set: e.Name, Reason: "the MachineDeployment is being deleted"})
		}
	}
}

// createCurrent asks for the current set and for nothing else: the old sets
// stay as they are until it exists.
func createCurrent(b *book) {
	b.extra = append(b.extra, Intent{
		Kind:   CreateCurrent,
		To:     min(b.room(), b.state.Replicas),
		Reason: "no MachineSet has the wanted template",
	})
}

// switchCreation forbids old sets to create Machines under OnDelete.
func switchCreation(b *book) {
	for _, e := range b.entries {
		forbid := b.state.onDelete() && e != b.current
		switch {
		case e.Terminating:
		case forbid && !e.CreateDisabled:
			b.extra = append(b.extra, Intent{Kind: DisableCreate, Set: e.Name, Reason: "old MachineSets do not replace deleted Machines under OnDelete"})
		case !forbid && e.CreateDisabled:
			b.extra = append(b.extra, Intent{Kind: EnableCreate, Set: e.Name, Reason: "the MachineSet may create Machines again"})
		}
	}
}

// decision writes the book up.
func (b *book) decision() Decision {
	d := Decision{
		Stamp:      b.stamp(),
		RollingOut: b.rollingOut(),
		Complete:   b.complete(),
		Intents:    b.extra,
	}
	if b.sized() {
		d.Intents = append(d.Intents, b.sizes()...)
	}
	d.Wait = b.wait(d.Intents)
	return d
}

// sized tells whether the sizes of the sets were decided at all.
func (b *book) sized() bool {
	return !b.state.Deleting && len(b.state.Unseen) == 0 && (b.state.Paused || b.state.held() || b.current != nil)
}

// sizes lists the stamps first: a stamp that is written after a crash in
// between would otherwise hide that its set has not followed yet.
func (b *book) sizes() []Intent {
	var records, scales []Intent
	for _, e := range b.entries {
		switch {
		case e.Terminating || b.deletes(e):
		case e.target != e.Replicas:
			scales = append(scales, Intent{Kind: Scale, Set: e.Name, From: e.Replicas, To: e.target, Reason: e.reason()})
		case e.Recorded != b.stamp():
			records = append(records, Intent{Kind: Record, Set: e.Name, Reason: "the size of the MachineDeployment changed"})
		}
	}
	return append(records, scales...)
}

func (b *book) deletes(e *entry) bool {
	for _, intent := range b.extra {
		if intent.Kind == Delete && intent.Set == e.Name {
			return true
		}
	}
	return false
}
