// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// scaleProportionally is all that happens while paused: the sets follow a change of
// spec.replicas in proportion to their sizes, so that the rollout stays where
// it is; only annotated and unavailable Machines are removed out of proportion.
// A set that follows is stamped, so a crash between two writes neither repeats
// nor loses a share.
func scaleProportionally(p *plan) {
	active := p.active()
	wanted := p.state.Replicas
	if len(active) > 1 {
		wanted = p.proportional(active)
	}
	for _, e := range active {
		e.lower(min(e.annotatedLeft(), p.total()-wanted), "Machines annotated for deletion go first")
	}
	for _, e := range active {
		e.lower(min(e.unavailable(), p.total()-wanted), "Machines that are not available go first")
	}

	reason := fmt.Sprintf("spec.replicas is %d", p.state.Replicas)
	outdated := slices.DeleteFunc(slices.Clone(active), func(e *setPlan) bool { return !p.sizeOutdated(e) })
	for _, group := range [][]*setPlan{outdated, active} {
		p.scaleGroup(wanted, group, reason)
	}
	if latest := p.latest(); latest != nil {
		latest.raise(min(wanted-p.total(), p.available()), reason)
	}
}

// active are the sets with a planned size above 0, the largest first.
func (p *plan) active() []*setPlan {
	active := slices.DeleteFunc(slices.Clone(p.entries), func(e *setPlan) bool { return e.target == 0 })
	slices.SortStableFunc(active, func(x, y *setPlan) int { return cmp.Compare(y.target, x.target) })
	return active
}

// latest is the current set, or else the newest, of those that stay.
func (p *plan) latest() *setPlan {
	for _, e := range slices.Backward(p.entries) {
		if !e.Terminating {
			return e
		}
	}
	return nil
}

// proportional is the size of all sets together once each has followed, kept
// between the wanted size and the ceiling.
func (p *plan) proportional(active []*setPlan) int32 {
	var sum int32
	for _, e := range active {
		size := e.target
		if p.sizeOutdated(e) && e.Recorded.Max > 0 {
			ratio := float64(p.state.ceiling()) / float64(e.Recorded.Max)
			size = int32(math.Round(float64(size) * ratio))
		}
		sum += size
	}
	return min(max(sum, p.state.Replicas), p.state.ceiling())
}

// scaleGroup moves the planned total to wanted by changing only this group.
func (p *plan) scaleGroup(wanted int32, group []*setPlan, reason string) {
	missing := wanted - p.total()
	if missing > 0 {
		group = slices.DeleteFunc(slices.Clone(group), func(e *setPlan) bool { return e.CreateDisabled })
		for i, n := range shares(min(missing, p.available()), group) {
			group[i].raise(n, reason)
		}
		return
	}
	var size int32
	for _, e := range group {
		size += e.target
	}
	for i, n := range shares(min(-missing, size), group) {
		group[i].lower(n, reason)
	}
}

// shares divides n among the sets in proportion to their planned sizes. What
// rounding leaves over is added to the largest remainders, then to the first.
func shares(n int32, sets []*setPlan) []int32 {
	var total int64
	for _, e := range sets {
		total += int64(e.target)
	}
	out := make([]int32, len(sets))
	if n <= 0 || total == 0 {
		return out
	}
	order := make([]int, len(sets))
	remainder := make([]int64, len(sets))
	left := n
	for i, e := range sets {
		product := int64(n) * int64(e.target)
		out[i] = int32(product / total)
		remainder[i] = product % total
		order[i] = i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(remainder[y], remainder[x]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}
