// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"strings"
)

// plan is the working copy of one decision: the observed sets and their planned sizes.
type plan struct {
	state   State
	current *setPlan   // nil if no MachineSet has the wanted template
	oldSets []*setPlan // oldest first
	entries []*setPlan // olds, then current
	extra   []Action   // the actions that do not change a size
}

// setPlan is a Set with its planned size and the reasons for it.
type setPlan struct {
	Set
	target  int32
	reasons []string
}

func newPlan(state State) *plan {
	p := &plan{state: state}
	for _, set := range state.Sets {
		e := &setPlan{Set: set, target: set.Replicas}
		switch {
		case set.Terminating:
			e.target = 0
			p.oldSets = append(p.oldSets, e)
		case set.Current && p.current == nil:
			p.current = e
		default:
			p.oldSets = append(p.oldSets, e)
		}
	}
	slices.SortFunc(p.oldSets, older)
	p.entries = slices.Clone(p.oldSets)
	if p.current != nil {
		p.entries = append(p.entries, p.current)
	}
	return p
}

func older(a, b *setPlan) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// lower takes n replicas from the planned size, never below zero.
func (e *setPlan) lower(n int32, reason string) int32 {
	n = min(n, e.target)
	if n > 0 {
		e.target -= n
		e.addReason(reason)
	}
	return max(n, 0)
}

func (e *setPlan) raise(n int32, reason string) {
	if n > 0 {
		e.target += n
		e.addReason(reason)
	}
}

func (e *setPlan) addReason(reason string) {
	if !slices.Contains(e.reasons, reason) {
		e.reasons = append(e.reasons, reason)
	}
}

func (e *setPlan) reason() string {
	return strings.Join(e.reasons, "; ")
}

// loss is how many available Machines are deleted in the worst case once the set has its planned size: an unavailable Machine
// may be available, and another one unavailable, when the deletion happens. A larger planned size saves none: the set may
// have been scaled down to its present size before.
func (e *setPlan) loss() int32 {
	if e.Terminating {
		return e.Available
	}
	return min(e.Available, max(e.liveAtMost()-min(e.target, e.Replicas), 0))
}

// leaving is how many Machines the planned size already removes.
func (e *setPlan) leaving() int32 {
	return max(e.live()-e.target, 0)
}

// losesAll is true if the planned size already removes every available Machine.
func (e *setPlan) losesAll() bool {
	return e.Terminating || e.live()-min(e.target, e.Replicas) >= e.Available
}

// annotatedLeft is how many annotated Machines the planned size does not remove yet.
func (e *setPlan) annotatedLeft() int32 {
	return max(e.DeleteAnnotated-e.leaving(), 0)
}

// unavailable is how many planned replicas are missing, unavailable or unhealthy.
func (e *setPlan) unavailable() int32 {
	return max(e.target-e.Available, e.Unhealthy-e.leaving(), 0)
}

// all is the whole planned size.
func (e *setPlan) all() int32 {
	return e.target
}

// total is the planned size of all sets together.
func (p *plan) total() int32 {
	var sum int32
	for _, e := range p.entries {
		sum += e.target
	}
	return sum
}

// available is how many replicas may be added without ever having more Machines than the ceiling, even before the planned
// deletions have happened.
func (p *plan) available() int32 {
	occupied := int32(0)
	for _, e := range p.entries {
		if e != p.current && e.Unobserved && !e.Terminating {
			// It may have created Machines before it observed the smaller size.
			return 0
		}
		occupied += e.occupied()
	}
	return max(p.state.ceiling()-occupied, 0)
}

func (e *setPlan) occupied() int32 {
	if e.Terminating {
		return max(e.Machines, e.Reported)
	}
	return max(e.Replicas, e.target, e.Machines, e.Reported)
}

// slack is how many available Machines may still be removed. It is negative if too few would be left in the worst case.
func (p *plan) slack() int32 {
	left := -p.state.minAvailable()
	for _, e := range p.entries {
		left += e.Available - e.loss()
	}
	return left
}

// sizeOutdated is true if the set has not been written since the size of the
// MachineDeployment changed. Unknown annotations count as followed.
func (p *plan) sizeOutdated(e *setPlan) bool {
	return !e.Terminating && e.Recorded != SizeAnnotations{} && e.Recorded.Desired != p.state.Replicas
}

func (p *plan) annotations() SizeAnnotations {
	return SizeAnnotations{Desired: p.state.Replicas, Max: p.state.ceiling()}
}
