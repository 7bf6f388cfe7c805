// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"drover.io/runtime/quantity"
)

// lowerAnnotated applies a decrease of spec.replicas to the Machines with the delete-machine annotation, in any set: the
// client that annotated them has drained them already, and expects that the decrease deletes them. Without a decrease the
// annotation is only an order of preference.
func lowerAnnotated(p *plan) {
	decrease := int32(0)
	for _, e := range p.entries {
		if p.sizeOutdated(e) && !e.Empty() {
			decrease = max(decrease, e.Recorded.Desired-p.state.Replicas)
		}
	}
	reason := fmt.Sprintf("spec.replicas was decreased to %d: Machines annotated for deletion go first", p.state.Replicas)
	for _, e := range p.entries {
		if n := min(decrease, e.annotatedLeft()); n > 0 && p.sizeOutdated(e) {
			// Missing Machines do not count for the annotated ones.
			e.lower(e.target-min(e.target, e.live())+n, reason)
			decrease -= n
		}
	}
}

// limitCurrent lowers the current set to spec.replicas.
func limitCurrent(p *plan) {
	p.current.lower(p.current.target-p.state.Replicas, fmt.Sprintf("spec.replicas is %d", p.state.Replicas))
}

// shrink removes what exceeds the wanted size and its surge. It relies on the order in which MachineSets delete, so that
// removing no more than the unavailable replicas of a set costs no available Machine; once all are available, what exceeds
// the ceiling is more than must be available.
func shrink(p *plan) {
	reason := fmt.Sprintf("more than the %s that may exist", quantity.Of(p.state.ceiling(), "Machine"))
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
