// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"time"

	"drover.io/runtime/drainplan"
)

// Pods are not watched, so passes are repeated: soon while Pods terminate, rarely while another party must act.
const (
	soonest = time.Second
	soon    = 2 * time.Second
	inTurn  = 5 * time.Second // a budget that has been spent elsewhere usually recovers within seconds
	latest  = 20 * time.Second
)

func (p *executor) requeueAfter(plan drainplan.Plan) time.Duration {
	after := latest
	switch {
	case p.retryAfter > 0:
		after = p.retryAfter
	case p.progress.Has(NextPass):
		after = soonest
	case len(p.removed) > 0:
		after = soon
	default:
		if p.progress.Has(BudgetExhausted) {
			after = inTurn
		}
		for _, d := range plan.Terminating {
			after = min(after, p.terminationWait(d))
		}
	}
	if due, forced := p.nextForce(plan); forced {
		after = min(after, due.Sub(p.view.Now))
	}
	return max(after, soonest)
}

// terminationWait grows with the time that the Pod has been terminating.
func (p *executor) terminationWait(d drainplan.Decision) time.Duration {
	began := d.Pod.DeletionTimestamp.Time
	if grace := d.Pod.DeletionGracePeriodSeconds; grace != nil {
		began = began.Add(-time.Duration(*grace) * time.Second)
	}
	return min(max(p.view.Now.Sub(began)/2, soon), latest)
}

// nextForce is when the next Pod must be deleted for the deadline, or the drain be given up.
func (p *executor) nextForce(plan drainplan.Plan) (time.Time, bool) {
	if p.view.ForceDeadline == nil {
		return time.Time{}, false
	}
	next := p.view.ForceDeadline.Add(2 * time.Second)
	for _, group := range [][]drainplan.Decision{plan.Evict, plan.Completing, plan.Later} {
		for _, d := range group {
			if due, ok := p.view.ForceDue(d.Pod); ok && due.Before(next) {
				next = due
			}
		}
	}
	return next, true
}
