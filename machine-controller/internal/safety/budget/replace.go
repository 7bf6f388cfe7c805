// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import "maps"

// Choice is which unhealthy Machines may be replaced now.
type Choice struct {
	// Allowed are names, in the order of the candidates.
	Allowed []string
	// Refused holds a refusal for each of the others, by name.
	Refused map[string]*Refusal
}

// Replace decides which of the candidates, all of State.Owner, may be deleted now. Earlier ones come first. Names of
// Machines that State does not have, or that are being deleted already, are neither allowed nor refused.
func (g Gate) Replace(s State, candidates []string) Choice {
	b := newReplaceBudget(g, s, candidates)
	choice := Choice{Refused: map[string]*Refusal{}}
	blocked := b.blocked()
	for _, name := range candidates {
		m, known := b.candidates[name]
		if !known {
			continue
		}
		delete(b.candidates, name)
		refusal := blocked
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

// replaceBudget counts the Machines for one decision.
type replaceBudget struct {
	gate       Gate
	state      State
	candidates map[string]Machine
	// owner, cluster and domain are how many Machines of State.Owner, of the Cluster and of each failure domain are
	// being replaced.
	owner, cluster int
	domain         map[string]int
	// all and unhealthy count the Cluster's Machines, domains those of each failure domain.
	all, unhealthy int
	domains        map[string]domain
}

// domain counts the Machines of one failure domain.
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
		b.cluster += owner.Unfilled
		if key == s.Owner {
			b.owner += owner.Unfilled
		}
	}
	return b
}

// countHealth counts a Machine for the Cluster and its failure domain. One that has never joined is not counted as
// unhealthy: it is no sign of the health of the others.
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

// blocked returns why no Machine may be replaced; nil if some may.
func (b *replaceBudget) blocked() *Refusal {
	if b.state.Blocked != nil {
		return b.state.Blocked
	}
	unhealthy, all := b.unhealthy, b.all
	for name, d := range b.domains {
		if name != "" && b.down(name) { // nothing is replaced there; it does not stop the other failure domains
			unhealthy, all = unhealthy-d.unhealthy, all-d.all
		}
	}
	if unhealthy > b.gate.Policy.StopAbove.Of(all) {
		return tooManyUnhealthy(unhealthy, all, b.gate.Policy)
	}
	return nil
}

// refusal returns why this Machine may not be replaced now; nil if it may.
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

// down is true for a failure domain without a healthy Machine while another one has some.
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

// reserve counts the Machine as being replaced in every budget.
func (b *replaceBudget) reserve(m Machine) {
	if m.Owner == b.state.Owner {
		b.owner++
	}
	b.cluster++
	b.domain[m.Domain]++
}
