// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"drover.io/infra-providers/driver"
)

// refresh lists everything and merges it. The caller holds refreshing.
func (v *Inventory[C]) refresh(ctx context.Context) error {
	began := v.options.Now()
	listed, err := v.list(ctx)
	switch {
	case errors.Is(err, ErrTooMany):
		v.noteOverflow(began)
		return err
	case err != nil:
		v.fail(began, err)
		return fmt.Errorf("listing instances: %w", err)
	}
	for _, id := range v.merge(began, listed) {
		v.options.Changed(id)
	}
	return nil
}

// list reads the whole list. What was read of it counts as kept.
func (v *Inventory[C]) list(ctx context.Context) (map[string]driver.Instance, error) {
	const checkEvery = 1000 // instances
	listed, seen, cost, limit := map[string]driver.Instance{}, 0, 0, math.MaxInt
	for instance, err := range v.List(ctx, driver.Owner{}) {
		if err != nil {
			return nil, err
		}
		if seen%checkEvery == 0 && v.options.Max != nil {
			v.reportKept(cost)
			limit = v.options.Max()
		}
		seen++
		if cost += instance.Cost(); cost > limit {
			return nil, ErrTooMany
		}
		listed[instance.ProviderID] = instance
	}
	return listed, nil
}

// merge replaces the entries by a complete list and returns what changed. An entry that it does not show is dropped, so
// that the next Get reads it directly.
func (v *Inventory[C]) merge(began time.Time, listed map[string]driver.Instance) (changed []driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := v.listed.IsZero()
	v.listed, v.next, v.refused = began, time.Time{}, nil
	for providerID, instance := range listed {
		known := v.entries[providerID]
		if known != nil && !known.fresh.Before(began) {
			continue
		}
		if known != nil && known.deleted && !isEnding(instance.State) {
			known.stale = true
			continue
		}
		if !first && (known == nil || !same(known.instance, instance)) {
			changed = append(changed, instance.Identity)
			if known != nil && known.instance.Identity != instance.Identity {
				changed = append(changed, known.instance.Identity) // whose machine loses the instance
			}
		}
		next := &entry{instance: instance}
		if known != nil {
			next.fresh, next.deleted = known.fresh, known.deleted
		}
		v.put(next)
	}
	for providerID, known := range v.entries {
		if _, ok := listed[providerID]; ok || !known.fresh.Before(began) {
			continue
		}
		v.remove(known)
		changed = append(changed, known.instance.Identity)
	}
	v.setKept(0)
	return changed
}

func isEnding(state driver.State) bool { return state == driver.Stopping || state == driver.Terminated }

// same reports whether two lists show the same of an instance. Only the message may differ: it explains a state.
func same(a, b driver.Instance) bool {
	return a.Identity == b.Identity && a.State == b.State && a.StepDue == b.StepDue && a.Eviction == b.Eviction && equality.Semantic.DeepEqual(a.Addresses, b.Addresses) && equality.Semantic.DeepEqual(a.Reported, b.Reported) && equality.Semantic.DeepEqual(a.Guest, b.Guest)
}

// noteOverflow records a list that has too many instances, as one that shows none.
func (v *Inventory[C]) noteOverflow(began time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed, v.next, v.refused = began, time.Time{}, nil
	for _, known := range v.entries {
		v.remove(known)
	}
	v.setKept(0)
}

// fail records a list that did not complete, and postpones the next one.
func (v *Inventory[C]) fail(now time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setKept(0)
	v.next = now.Add(max(v.options.Unsettled, driver.RetryAfter(err)))
	v.refused = nil
	if driver.IsUnauthorized(err) {
		v.refused = driver.Brief(err)
	}
}

func (v *Inventory[C]) refusal() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused
}

// find returns an entry that is not stale or doubtful. While lists fail, one that starts or stops is out of date after an
// interval.
func (v *Inventory[C]) find(id driver.Identity) (driver.Instance, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.lookup(id)
	if known == nil || known.stale || v.isDoubtful(known) || unsettled(known.instance) && v.isOutdated(known) {
		return driver.Instance{}, false
	}
	return known.instance, true
}

// isDoubtful reports whether an entry that stops was not read by itself for an interval, by a driver whose lists remember it.
func (v *Inventory[C]) isDoubtful(known *entry) bool {
	return v.options.RemembersRemovals && known.instance.State == driver.Stopping && !known.instance.StepDue && v.options.Now().Sub(known.fresh) > v.options.Interval
}

// isOutdated reports whether an entry was neither listed nor read for an interval.
func (v *Inventory[C]) isOutdated(known *entry) bool {
	now := v.options.Now()
	return now.Sub(v.listed) > v.options.Interval && now.Sub(known.fresh) > v.options.Interval
}

// lookup returns the entry of an identity: of its provider ID, or of its other names where that is all there is. Where several
// instances have the tags of one machine, as copies do, the names do not identify one.
func (v *Inventory[C]) lookup(id driver.Identity) *entry {
	if id.ProviderID != "" {
		return v.entries[id.ProviderID]
	}
	if of := v.named(id); len(of) == 1 {
		for only := range of {
			return only
		}
	}
	return nil
}

// matching returns all entries that an identity may mean.
func (v *Inventory[C]) matching(id driver.Identity) []*entry {
	if id.ProviderID == "" {
		return slices.Collect(maps.Keys(v.named(id)))
	}
	if known := v.entries[id.ProviderID]; known != nil {
		return []*entry{known}
	}
	return nil
}

// named are the entries for which Check of an identity without a provider ID is nil, at no cost for each. Another machine may have
// its UID, as the copy of one with its annotation: what is of that one is read by itself.
func (v *Inventory[C]) named(id driver.Identity) map[*entry]struct{} {
	if !id.Tagged() {
		return nil
	}
	return v.copies[nameOf(id)]
}

// nameOf is what names a machine for Check.
func nameOf(id driver.Identity) driver.Identity {
	return driver.Identity{UID: id.UID, Name: id.Name, Owner: driver.Owner{Namespace: id.Owner.Namespace, Name: id.Owner.Name}}
}

// keep replaces the entry of one instance by what a call returned.
// What is over the limit is not kept, so that it is read by itself each time.
func (v *Inventory[C]) keep(instance driver.Instance) {
	fits := v.fits(instance)
	v.mu.Lock()
	defer v.mu.Unlock()
	defer func() { v.setKept(v.listing) }()
	known := v.entries[instance.ProviderID]
	if !fits {
		if known != nil {
			v.remove(known)
		}
		return
	}
	deleted := known != nil && known.deleted && isEnding(instance.State)
	if deleted && instance.State == driver.Stopping {
		v.lingers, v.pollAfter = true, instance.PollAfter
	}
	v.put(&entry{instance: instance, fresh: v.options.Now(), deleted: deleted})
}

// fits reports whether an instance may be kept besides the others.
func (v *Inventory[C]) fits(instance driver.Instance) bool {
	v.mu.Lock()
	cost, more := v.cost, instance.Cost()
	if known := v.entries[instance.ProviderID]; known != nil {
		more -= known.instance.Cost()
	}
	v.mu.Unlock()
	return more <= 0 || v.options.Max == nil || cost+more <= v.options.Max() // which looks at all accounts of the namespace
}

func (v *Inventory[C]) put(e *entry) {
	if known := v.entries[e.instance.ProviderID]; known != nil {
		v.remove(known)
	}
	name := nameOf(e.instance.Identity)
	v.entries[e.instance.ProviderID] = e
	v.cost += e.instance.Cost()
	if v.copies[name] == nil {
		v.copies[name] = map[*entry]struct{}{}
	}
	v.copies[name][e] = struct{}{}
}

func (v *Inventory[C]) remove(e *entry) {
	name := nameOf(e.instance.Identity)
	delete(v.entries, e.instance.ProviderID)
	v.cost -= e.instance.Cost()
	delete(v.copies[name], e)
	if len(v.copies[name]) == 0 {
		delete(v.copies, name)
	}
}

// reportKept reports how many instances are kept, with those of a list that is being read.
func (v *Inventory[C]) reportKept(listed int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setKept(listed)
}

// setKept is reportKept for a caller that holds the lock.
func (v *Inventory[C]) setKept(listed int) {
	v.listing = listed
	if v.options.Kept != nil {
		v.options.Kept.Store(int64(v.cost + listed))
	}
}

func (v *Inventory[C]) markStale(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		known.stale, known.fresh = true, v.options.Now()
	}
}

// markDeleted records a deletion that the cloud accepted.
func (v *Inventory[C]) markDeleted(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		known.deleted, known.fresh = true, v.options.Now()
		if !v.lingers || known.instance.State == driver.Terminated || known.instance.StepDue {
			known.stale = true // after the last step of a removal nothing may be left
		}
		if !known.stale {
			known.instance.State, known.instance.PollAfter = driver.Stopping, v.pollAfter
		}
	}
}

func (v *Inventory[C]) drop(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		v.remove(known)
	}
}
