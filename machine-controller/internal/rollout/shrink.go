// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// lowerAnnotated gives a decrease of spec.replicas to the Machines that carry the
// delete-machine annotation, whichever set they are in: whoever annotated them
// has drained them already, and takes the decrease for their deletion. Without
// a decrease the annotation is only an order of preference.
func lowerAnnotated(p *plan) {
	decrease := int32(0)
	for _, e := range p.entries {
		if p.sizeOutdated(e) {
			decrease = max(decrease, e.Recorded.Desired-p.state.Replicas)
		}
	}
	reason := fmt.Sprintf("spec.replicas was decreased to %d: Machines annotated for deletion go first", p.state.Replicas)
	for _, e := range p.entries {
		if n := min(decrease, e.annotatedLeft()); n > 0 && p.sizeOutdated(e) {
			// Missing Machines must not stand in for the annotated ones.
			e.lower(e.target-min(e.target, e.live())+n, reason)
			decrease -= n
		}
	}
}

// limitCurrent lowers the current set to spec.replicas.
func limitCurrent(p *plan) {
	p.current.lower(p.current.target-p.state.Replicas, fmt.Sprintf("spec.replicas is %d", p.state.Replicas))
}

// shrink takes what exceeds the wanted size and its surge. It relies on the
// order in which MachineSets delete, so that taking no more than the bad
// replicas of a set costs no available Machine; once none is bad any more,
// whatever exceeds the ceiling is more than must be available.
func shrink(p *plan) {
	reason := fmt.Sprintf("more than the %d Machines that may exist", p.state.ceiling())
	for _, part := range []struct {
		of   func(*setPlan) int32
		note string
	}{
		{(*setPlan).annotatedLeft, reason + ": Machines annotated for deletion go first"},
		{(*setPlan).unavailable, reason},
		{(*setPlan).all, reason},
	} {
		for _, e := range p.entries {
			e.lower(min(part.of(e), p.total()-p.state.ceiling()), part.note)
		}
	}
}

// shrinkToExisting lowers old sets under OnDelete to the Machines that they still
// have, once they can create no more.
func shrinkToExisting(p *plan) {
	for _, e := range p.oldSets {
		if e.CreateDisabled && !e.Unobserved && !e.Terminating {
			e.lower(e.target-e.liveAtMost(), "Machines of an old MachineSet were deleted")
		}
	}
}
