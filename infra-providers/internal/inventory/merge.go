// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
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

// list reads the whole list. What was read of it counts as kept meanwhile.
func (v *Inventory[C]) list(ctx context.Context) (map[string]driver.Instance, error) {
	const often = 1000 // instances
	listed, seen, cost, most := map[string]driver.Instance{}, 0, 0, math.MaxInt
	for instance, err := range v.List(ctx, driver.Owner{}) {
		if err != nil {
			return nil, err
		}
		if seen%often == 0 && v.options.Most != nil {
			v.count(cost)
			most = v.options.Most()
		}
		seen++
		if cost += costOf(instance); cost > most {
			return nil, ErrTooMany
		}
		listed[instance.ProviderID] = instance
	}
	return listed, nil
}

// merge takes over a complete list and returns what it changed. What it misses is forgotten, so that only a direct
// read tells what became of it.
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
		if known != nil && known.deleted && !leaving(instance.State) {
			known.doubtful = true
			continue
		}
		if !first && (known == nil || !same(known.instance, instance)) {
			changed = append(changed, instance.Identity)
		}
		v.put(&entry{instance: instance, deleted: known != nil && known.deleted})
	}
	for providerID, known := range v.entries {
		if _, ok := listed[providerID]; ok || !known.fresh.Before(began) {
			continue
		}
		v.remove(known)
		changed = append(changed, known.instance.Identity)
	}
	v.keep(0)
	return changed
}

func leaving(state driver.State) bool { return state == driver.Stopping || state == driver.Terminated }

func same(a, b driver.Instance) bool {
	return a.State == b.State && a.StepDue == b.StepDue && equality.Semantic.DeepEqual(a.Addresses, b.Addresses) && equality.Semantic.DeepEqual(a.Reported, b.Reported) && equality.Semantic.DeepEqual(a.Guest, b.Guest)
}

// crowd notes a list that has too many instances, as one that shows none.
func (v *Inventory[C]) noteOverflow(began time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed, v.next, v.refused = began, time.Time{}, nil
	for _, known := range v.entries {
		v.remove(known)
	}
	v.keep(0)
}

// fail notes a list that did not complete and spares the cloud for a while.
func (v *Inventory[C]) fail(now time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(0)
	v.next = now.Add(max(v.options.Unsettled, driver.RetryAfter(err)))
	v.refused = nil
	if driver.IsUnauthorized(err) {
		v.refused = err
	}
}

func (v *Inventory[C]) refusal() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused
}

// find returns what is known for sure.
func (v *Inventory[C]) find(id driver.Identity) (driver.Instance, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.lookup(id)
	if known == nil || known.doubtful {
		return driver.Instance{}, false
	}
	return known.instance, true
}

// lookup returns what is known of an identity: of its provider ID, and of its UID where that is all there is. Where
// several instances have the tags of one machine, as copies do, the UID alone does not tell which one is meant.
func (v *Inventory[C]) lookup(id driver.Identity) *entry {
	if id.ProviderID != "" {
		return v.entries[id.ProviderID]
	}
	if of := v.byUID[id.UID]; len(of) == 1 {
		return of[0]
	}
	return nil
}

// matching returns all that may be meant by an identity.
func (v *Inventory[C]) matching(id driver.Identity) []*entry {
	if id.ProviderID == "" {
		return slices.Clone(v.byUID[id.UID])
	}
	if known := v.entries[id.ProviderID]; known != nil {
		return []*entry{known}
	}
	return nil
}

// note takes over what the cloud said about one instance.
func (v *Inventory[C]) note(instance driver.Instance) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.entries[instance.ProviderID]
	deleted := known != nil && known.deleted && leaving(instance.State)
	if deleted && instance.State == driver.Stopping {
		v.lingers, v.observe = true, instance.PollAfter
	}
	v.put(&entry{instance: instance, fresh: v.options.Now(), deleted: deleted})
}

func (v *Inventory[C]) put(e *entry) {
	if known := v.entries[e.instance.ProviderID]; known != nil {
		v.remove(known)
	}
	uid := e.instance.Identity.UID
	v.entries[e.instance.ProviderID] = e
	v.cost += costOf(e.instance)
	v.byUID[uid] = append(v.byUID[uid], e)
}

func (v *Inventory[C]) remove(e *entry) {
	uid := e.instance.Identity.UID
	delete(v.entries, e.instance.ProviderID)
	v.cost -= costOf(e.instance)
	v.byUID[uid] = slices.DeleteFunc(v.byUID[uid], func(other *entry) bool { return other == e })
	if len(v.byUID[uid]) == 0 {
		delete(v.byUID, uid)
	}
}

// count reports how many instances are kept, with those of a list that is being read.
func (v *Inventory[C]) count(listed int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(listed)
}

// keep is count for a caller who holds the lock.
func (v *Inventory[C]) keep(listed int) {
	if v.options.Kept != nil {
		v.options.Kept.Store(int64(v.cost + listed))
	}
}

// costOf is how many instances of the usual size an instance takes the memory of: one for each KiB begun.
func costOf(instance driver.Instance) int {
	id := instance.Identity
	bytes := len(instance.ID) + len(instance.ProviderID) + len(instance.Message) + len(instance.FailureDomain) +
		len(id.UID) + len(id.Name) + len(id.ProviderID) + len(id.Owner.UID) + len(id.Owner.Namespace) + len(id.Owner.Name)
	for _, address := range slices.Concat(instance.Addresses, instance.Reported) {
		bytes += len(address.Address) + len(address.Type)
	}
	return 1 + bytes/1024
}

func (v *Inventory[C]) doubt(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		known.doubtful, known.fresh = true, v.options.Now()
	}
}

// leave notes a deletion that the cloud took.
func (v *Inventory[C]) leave(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		known.deleted, known.fresh = true, v.options.Now()
		if !v.lingers || known.instance.State == driver.Terminated || known.instance.StepDue {
			known.doubtful = true // after the last step of a removal nothing may be left
		}
		if !known.doubtful {
			known.instance.State, known.instance.PollAfter = driver.Stopping, v.observe
		}
	}
}

func (v *Inventory[C]) forget(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.matching(id) {
		v.remove(known)
	}
}
