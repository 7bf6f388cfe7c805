// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drover.io/machine-controller/internal/safety/policy"
)

// simulator is a Cluster in which MachineSets call the Gate, and do what it allows.
type simulator struct {
	settings policy.Settings
	owners   map[string]Owner
	machines []Machine
	blocked  *Refusal
	serial   int
	// domains are where new Machines go, in turn.
	domains []string
	// joins reports whether a pending Machine joins in the next tick.
	joins func(Machine) bool
	// emptyCache is whether sets count no Machines.
	emptyCache bool
	// deleted counts the Machines that were ever deleted to be replaced.
	deleted int
}

func newSimulator(settings policy.Settings, sizes map[string]int, domains ...string) *simulator {
	w := &simulator{settings: settings, domains: domains, owners: map[string]Owner{}, joins: func(Machine) bool { return true }}
	for _, key := range sortedKeys(sizes) {
		w.owners[key] = Owner{Title: "MachineDeployment " + key, Desired: sizes[key]}
		for range sizes[key] {
			w.create(key)
			w.machines[len(w.machines)-1].Joined = true
		}
	}
	return w
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (w *simulator) create(owner string) {
	m := Machine{Name: fmt.Sprintf("%s-%d", owner, w.serial), Owner: owner}
	if f := w.owners[owner]; f.Unfilled > 0 {
		f.Unfilled--
		w.owners[owner] = f
		m.Proving = true
	}
	if len(w.domains) > 0 {
		m.Domain = w.domains[w.serial%len(w.domains)]
	}
	w.serial++
	w.machines = append(w.machines, m)
}

func (w *simulator) state(owner string) State {
	return State{Owner: owner, Owners: w.owners, Machines: slices.Clone(w.machines), Blocked: w.blocked}
}

// remediate replaces the unhealthy Machines of the owner, and describes what was refused.
func (w *simulator) remediate(owner string) []string {
	var unhealthy []string
	for _, m := range w.machines {
		if m.Owner == owner && m.Unhealthy && !m.Deleting {
			unhealthy = append(unhealthy, m.Name)
		}
	}
	choice := Gate{w.settings}.AllowRemediation(w.state(owner), unhealthy)
	for i := range w.machines {
		if slices.Contains(choice.Allowed, w.machines[i].Name) {
			w.machines[i].Deleting, w.machines[i].Replaced = true, true
			w.deleted++
		}
	}
	var words []string
	if len(choice.Allowed) > 0 {
		words = append(words, "replaces "+strings.Join(choice.Allowed, " "))
	}
	refused := map[string]int{}
	for _, name := range unhealthy {
		if refusal := choice.Refused[name]; refusal != nil {
			refused[refusal.Reason+": "+refusal.Message]++
		}
	}
	for _, text := range sortedKeys(refused) {
		words = append(words, fmt.Sprintf("refuses %d, %s", refused[text], text))
	}
	return words
}

// grow creates what the owner lacks, as far as the Gate allows.
func (w *simulator) grow(owner string) []string {
	missing := w.owners[owner].Desired - count(w.machines, func(m Machine) bool { return m.Owner == owner && !w.emptyCache })
	if missing <= 0 {
		return nil
	}
	decision := Gate{w.settings}.AllowCreation(w.state(owner), missing)
	for range decision.Allowed {
		w.create(owner)
	}
	var words []string
	if decision.Allowed > 0 {
		words = append(words, fmt.Sprintf("creates %d", decision.Allowed))
	}
	if decision.Refusal != nil {
		words = append(words, fmt.Sprintf("creates no more, %s: %s", decision.Refusal.Reason, decision.Refusal.Message))
	}
	return words
}

// tick completes deletions; new Machines become proven, and
// pending ones join.
func (w *simulator) tick() {
	for _, m := range w.machines {
		if f := w.owners[m.Owner]; m.Replaced {
			f.Unfilled++
			w.owners[m.Owner] = f
		}
	}
	w.machines = slices.DeleteFunc(w.machines, func(m Machine) bool { return m.Deleting })
	for i := range w.machines {
		m := &w.machines[i]
		if m.healthy() {
			m.Proving = false
		}
		if m.pending() && w.joins(*m) {
			m.Joined = true
		}
	}
}

func (w *simulator) line() string {
	healthy := count(w.machines, Machine.healthy)
	ill := count(w.machines, func(m Machine) bool { return m.Unhealthy && !m.Deleting })
	return fmt.Sprintf("%d healthy, %d unhealthy, %d pending, %d being deleted", healthy, ill,
		count(w.machines, func(m Machine) bool { return m.pending() && !m.Unhealthy }), count(w.machines, func(m Machine) bool { return m.Deleting }))
}
