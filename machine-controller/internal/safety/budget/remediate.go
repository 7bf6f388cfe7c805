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

// AllowRemediation decides which of the candidates, all of State.Owner, may be deleted now. Earlier ones come first. Names of
// Machines that State does not have, or that are being deleted already, are neither allowed nor refused.
func (g Gate) AllowRemediation(s State, candidates []string) Choice {
	b := newRemediationBudget(g, s, candidates)
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
			b.count(m)
			continue
		}
		b.reserve(m)
		choice.Allowed = append(choice.Allowed, name)
	}
	return choice
}

// remediationBudget counts the Machines for one decision.
type remediationBudget struct {
	gate       Gate
	state      State
	candidates map[string]Machine
	// taken counts the Machines that are being replaced; waiting are those of them that are replacements which failed, and
	// so wait to be replaced themselves.
	taken, waiting places
	// all and unhealthy count the Cluster's Machines, domains those of each failure domain.
	all, unhealthy int
	domains        map[string]domain
}

// places are how many Machines of State.Owner, of the Cluster and of each failure domain have a place in the budget.
type places struct {
	owner, cluster int
	domain         map[string]int
}

// domain counts the Machines of one failure domain.
type domain struct{ all, unhealthy, healthy int }

func newRemediationBudget(g Gate, s State, candidates []string) *remediationBudget {
	b := &remediationBudget{gate: g, state: s, candidates: map[string]Machine{}, domains: map[string]domain{}}
	b.taken.domain, b.waiting.domain = map[string]int{}, map[string]int{}
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
		if _, candidate := b.candidates[m.Name]; !candidate {
			b.count(m)
		}
	}
	for key, owner := range s.Owners {
		b.taken.cluster += owner.Unfilled
		if key == s.Owner {
			b.taken.owner += owner.Unfilled
		}
	}
	return b
}

// countHealth counts a Machine for the Cluster and its failure domain. One that has never joined is not counted as
// unhealthy: it is no sign of the health of the others.
func (b *remediationBudget) countHealth(m Machine) {
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
func (b *remediationBudget) blocked() *Refusal {
	if b.state.Blocked != nil {
		return b.state.Blocked
	}
	unhealthy, all := b.unhealthy, b.all
	for name, d := range b.domains {
		if name != "" && b.down(name) { // nothing is replaced there unless requested; it does not stop the other failure domains
			unhealthy, all = unhealthy-d.unhealthy, all-d.all
		}
	}
	if unhealthy > b.gate.Policy.StopAbove.Of(all) {
		return tooManyUnhealthy(unhealthy, all, b.gate.Policy)
	}
	return nil
}

// refusal returns why this Machine may not be replaced now; nil if it may. A replacement that failed has its place already,
// and others that failed do not keep it waiting: none of them would ever free its place, where a budget is smaller by now.
func (b *remediationBudget) refusal(m Machine) *Refusal {
	p := b.gate.Policy
	owner := b.state.Owners[b.state.Owner]
	if m.Domain != "" && !m.Requested && b.down(m.Domain) {
		return domainDown(m.Domain, b.domains[m.Domain].unhealthy)
	}
	inOwner, inCluster, inDomain := b.taken.of(m)
	if m.Proving {
		a, c, d := b.waiting.of(m)
		inOwner, inCluster, inDomain = inOwner-a, inCluster-c, inDomain-d
	}
	if most := p.PerOwner.Of(owner.Desired); inOwner >= most {
		return budgetUsed(owner.Title, "maxPerDeployment", p.PerOwner, most)
	}
	if most := p.PerCluster.Of(b.all); inCluster >= most {
		return budgetUsed("the Cluster", "maxPerCluster", p.PerCluster, most)
	}
	if most := p.PerDomain.Of(b.domains[m.Domain].all); m.Domain != "" && inDomain >= most {
		return budgetUsed("failure domain "+m.Domain, "maxPerFailureDomain", p.PerDomain, most)
	}
	return nil
}

// down is true for a failure domain without a healthy Machine while another one has some.
func (b *remediationBudget) down(name string) bool {
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

// count counts a Machine that is not about to be replaced by this decision, if it has a place.
func (b *remediationBudget) count(m Machine) {
	if !m.beingReplaced() {
		return
	}
	b.reserve(m)
	if m.Unhealthy && !m.Deleting {
		b.waiting.add(m, b.state.Owner)
	}
}

// reserve counts the Machine as being replaced in every budget.
func (b *remediationBudget) reserve(m Machine) { b.taken.add(m, b.state.Owner) }

// add counts a Machine; owner is the key of State.Owner.
func (p *places) add(m Machine, owner string) {
	if m.Owner == owner {
		p.owner++
	}
	p.cluster++
	p.domain[m.Domain]++
}

// of returns the places in each budget of the Machine.
func (p *places) of(m Machine) (owner, cluster, domain int) {
	return p.owner, p.cluster, p.domain[m.Domain]
}
