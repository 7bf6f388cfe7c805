// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
)

// disturbances are the kinds of disturbance that a simulation has.
type disturbances struct {
	failures bool // Machines break or are deleted by others
	changes  bool // the wanted template changes and changes back
	resizes  bool // spec.replicas changes, Machines are annotated, the rollout is paused
}

// step makes one change.
func (w *simulator) step(t disturbances) {
	w.steps++
	switch w.pick(16) {
	case 0, 1, 2:
		w.plan(-1)
	case 3:
		w.plan(w.pick(4)) // stops after a few writes, in any order
	case 4, 5, 6, 7:
		if len(w.sets) > 0 {
			w.machineSet(w.pick(len(w.sets)), 1+w.pick(8))
		}
	case 8, 9:
		w.changeOne(func(m *simMachine) bool { return !m.available && !m.deleting }, func(m *simMachine) { m.available = true })
	case 10, 11:
		w.finish()
	case 12:
		w.seenSets += w.pick(len(w.setLog) - w.seenSets)
	case 13:
		w.seenMachines += w.pick(len(w.machineLog) - w.seenMachines)
	case 14:
		w.disturb(t)
	default:
		w.syncCaches()
	}
}

func (w *simulator) disturb(t disturbances) {
	switch kind := w.pick(7); {
	case kind == 0:
		// Another leader: it has no records of writes, but lists anew.
		clear(w.written)
		w.syncCaches()
	case kind == 1 && t.changes:
		w.template = string(rune('a' + w.pick(3)))
	case kind == 2 && t.failures:
		w.changeOne(func(m *simMachine) bool { return m.available && !m.deleting }, func(m *simMachine) {
			m.available = false
			w.lostToOthers++
		})
	case kind == 3 && t.failures:
		w.changeOne(func(m *simMachine) bool { return !m.deleting }, func(m *simMachine) {
			if m.available {
				w.lostToOthers++
			}
			m.deleting = true
		})
		w.removeAnnotations() // it may have been deleted in place of an annotated one
	case kind == 4 && t.resizes:
		w.resize(int32(w.pick(11)))
	case kind == 5 && t.resizes:
		w.scaleDown()
	case kind == 6 && t.failures:
		w.blocked = !w.blocked
	}
}

// resize changes spec.replicas.
func (w *simulator) resize(replicas int32) {
	w.paused = w.pick(4) == 0
	if replicas >= w.replicas || w.paused {
		w.removeAnnotations()
	}
	w.resized, w.replicas = true, replicas
	ceiling, floor := w.bounds()
	w.ceiling, w.floor = max(w.ceiling, ceiling), min(w.floor, floor)
}

// removeAnnotations takes all annotations back.
func (w *simulator) removeAnnotations() {
	clear(w.annotatedForDecrease)
	for i := range w.machines {
		w.machines[i].annotated = false
	}
	w.log()
}

// scaleDown does what the cluster autoscaler does: it annotates a Machine, then
// decreases spec.replicas. A decrease is acted on with a fresh list of Machines.
func (w *simulator) scaleDown() {
	if w.replicas == 0 {
		return
	}
	// An increase that was never acted on would hide the decrease.
	w.syncCaches()
	w.plan(-1)
	w.changeOne(func(m *simMachine) bool { return !m.deleting && !m.annotated }, func(m *simMachine) {
		m.annotated = true
		w.annotatedForDecrease[m.id] = true
	})
	w.resize(w.replicas - 1)
	w.syncCaches()
	w.plan(-1)
}

// changeOne does something to one of the Machines that it can be done to.
func (w *simulator) changeOne(which func(*simMachine) bool, what func(*simMachine)) {
	n := len(w.machines)
	if n == 0 {
		return
	}
	start := w.pick(n)
	for i := range n {
		if m := &w.machines[(start+i)%n]; which(m) {
			what(m)
			w.log()
			return
		}
	}
}

// finish completes one deletion.
func (w *simulator) finish() {
	i := slices.IndexFunc(w.machines, func(m simMachine) bool { return m.deleting })
	if i >= 0 {
		w.machines = slices.Delete(w.machines, i, i+1)
		w.log()
	}
}

// settle runs everything until nothing changes any more, and checks that
// exactly the wanted Machines are there.
func (w *simulator) settle() {
	w.paused, w.blocked, w.guaranteedOrder = false, false, true
	for tick := range 400 {
		for i := range w.sets {
			w.machineSet(i, -1)
		}
		for i := range w.machines {
			m := &w.machines[i]
			m.available = m.available || !m.deleting
			if w.onDelete && tick%2 == 1 && m.set != "ms-"+w.template {
				m.deleting = true
			}
		}
		w.machines = slices.DeleteFunc(w.machines, func(m simMachine) bool { return m.deleting })
		w.log()
		w.syncCaches()
		d := w.plan(-1)
		if d.Complete && len(d.Actions) == 0 {
			w.checkSettled()
			return
		}
	}
	w.fail(fmt.Errorf("never settles: %+v", Plan(w.view())))
}

func (w *simulator) checkSettled() {
	for _, s := range w.sets {
		want := int32(0)
		if s.template == w.template {
			want = w.replicas
		}
		if s.spec != want || w.count(s.name) != want {
			w.fail(fmt.Errorf("settles with %d of %d Machines in %s; want %d", w.count(s.name), s.spec, s.name, want))
		}
	}
	for _, m := range w.machines {
		if w.annotatedForDecrease[m.id] {
			w.fail(fmt.Errorf("settles with Machine %d, which was annotated for a decrease", m.id))
		}
	}
	if len(w.sets) != 1 {
		w.fail(fmt.Errorf("settles with %d MachineSets", len(w.sets)))
	}
}
