// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import "maps"

// Choice is which unhealthy Machines may be deleted, to be replaced, now.
type Choice struct {
	// Allowed are names, in the order in which they were asked for.
	Allowed []string
	// Refused holds a refusal for each of the others, by name.
	Refused map[string]*Refusal
}

// Replace decides which of the candidates, all of the owner that asks, may be deleted now.
// Earlier ones come first. Names that State does not know, or knows to be on their way out
// already, are neither allowed nor refused.
func (g Gate) Replace(s State, candidates []string) Choice {
	b := newReplaceBudget(g, s, candidates)
	choice := Choice{Refused: map[string]*Refusal{}}
	stop := b.blocked()
	for _, name := range candidates {
		m, known := b.candidates[name]
		if !known {
			continue
		}
		delete(b.candidates, name)
		refusal := stop
		if refusal == nil {
			refusal = b.refusal(m)
		}
		if refusal != nil {
			choice.Refused[name] = refusal
			continue
		}
		b.reserve(m)
		choice.Allowed = append(choice.Allowed, name)
	}
	return choice
}

// replaceBudget keeps the accounts of one decision.
type replaceBudget struct {
	gate       Gate
	state      State
	candidates map[string]Machine
	// owner, cluster and domain are how many Machines of the owner that asks, of the Cluster
	// and of each failure domain are being replaced.
	owner, cluster int
	domain         map[string]int
	// all and ill count the Cluster's Machines, domains those of each failure domain.
	all, unhealthy int
	domains  map[string]domain
}

// domain is how the Machines of one failure domain are.
type domain struct{ all, unhealthy, healthy int }

func newReplaceBudget(g Gate, s State, candidates []string) *replaceBudget {
	b := &replaceBudget{gate: g, state: s, candidates: map[string]Machine{}, domain: map[string]int{}, domains: map[string]domain{}}
	wanted := make(map[string]bool, len(candidates))
	for _, name := range candidates {
		wanted[name] = true
	}
	for _, m := range s.Machines {
		if wanted[m.Name] && m.Owner == s.Owner && !m.Deleting {
			b.candidates[m.Name] = m
			m.Unhealthy = true
		}
		b.countHealth(m)
		if _, candidate := b.candidates[m.Name]; !candidate && m.beingReplaced() {
			b.reserve(m)
		}
	}
	for key, owner := range s.Owners {
		b.cluster += owner.Vacancies
		if key == s.Owner {
			b.owner += owner.Vacancies
		}
	}
	return b
}

// countHealth counts the Machines that matter for whether something is wrong as a whole. Those
// that have never joined say nothing about the health of the rest.
func (b *replaceBudget) countHealth(m Machine) {
	if m.scaledDown() {
		return
	}
	d := b.domains[m.Domain]
	d.all++
	b.all++
	if m.Joined && m.Unhealthy {
		d.unhealthy++
		b.unhealthy++
	}
	if m.healthy() {
		d.healthy++
	}
	b.domains[m.Domain] = d
}

// blocked is why none may be replaced, whichever it is.
func (b *replaceBudget) blocked() *Refusal {
	if b.state.Blocked != nil {
		return b.state.Blocked
	}
	ill, all := b.unhealthy, b.all
	for name, d := range b.domains {
		if name != "" && b.down(name) { // nothing is replaced there; the rest need not suffer for it
			ill, all = ill-d.unhealthy, all-d.all
		}
	}
	if ill > b.gate.Policy.StopAbove.Of(all) {
		return tooManyUnhealthy(ill, all, b.gate.Policy)
	}
	return nil
}

// refusal is why this one may not be replaced now; nil if it may.
func (b *replaceBudget) refusal(m Machine) *Refusal {
	p := b.gate.Policy
	owner := b.state.Owners[b.state.Owner]
	if m.Domain != "" && b.down(m.Domain) {
		return domainDown(m.Domain, b.domains[m.Domain].unhealthy)
	}
	if most := p.PerOwner.Of(owner.Desired); b.owner >= most {
		return budgetUsed(owner.Title, "maxPerDeployment", p.PerOwner, most)
	}
	if most := p.PerCluster.Of(b.all); b.cluster >= most {
		return budgetUsed("the Cluster", "maxPerCluster", p.PerCluster, most)
	}
	if most := p.PerDomain.Of(b.domains[m.Domain].all); m.Domain != "" && b.domain[m.Domain] >= most {
		return budgetUsed("failure domain "+m.Domain, "maxPerFailureDomain", p.PerDomain, most)
	}
	return nil
}

// down is true for a failure domain of which nothing is left, while others live.
func (b *replaceBudget) down(name string) bool {
	d := b.domains[name]
	if d.unhealthy < 2 || d.healthy > 0 {
		return false
	}
	for other := range maps.Values(b.domains) {
		if other.healthy > 0 {
			return true
		}
	}
	return false
}

// reserve gives the Machine a place in every budget that it is under.
func (b *replaceBudget) reserve(m Machine) {
	if m.Owner == b.state.Owner {
		b.owner++
	}
	b.cluster++
	b.domain[m.Domain]++
}
