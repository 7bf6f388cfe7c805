// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// refresh lists everything and merges it. The caller holds refreshing.
func (v *Inventory[C]) refresh(ctx context.Context) error {
	began := v.options.Now()
	listed := map[types.UID]driver.Instance{}
	for instance, err := range v.List(ctx, driver.Owner{}) {
		if err != nil {
			v.fail(began, err)
			return fmt.Errorf("listing instances: %w", err)
		}
		listed[instance.Identity.UID] = instance
	}
	for _, id := range v.merge(began, listed) {
		v.options.Changed(id)
	}
	return nil
}

// merge takes over a complete list and returns what it changed.
func (v *Inventory[C]) merge(began time.Time, listed map[types.UID]driver.Instance) (changed []driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := v.listed.IsZero()
	v.listed, v.next, v.refused = began, time.Time{}, nil
	for uid, instance := range listed {
		known := v.entries[uid]
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
	for uid, known := range v.entries {
		if _, ok := listed[uid]; ok || !known.fresh.Before(began) || known.doubtful {
			continue
		}
		known.doubtful = true
		changed = append(changed, known.instance.Identity)
	}
	return changed
}

func leaving(state driver.State) bool { return state == driver.Stopping || state == driver.Terminated }

func same(a, b driver.Instance) bool {
	return a.State == b.State && equality.Semantic.DeepEqual(a.Addresses, b.Addresses) && equality.Semantic.DeepEqual(a.Guest, b.Guest)
}

// fail notes a list that did not complete and spares the cloud for a while.
func (v *Inventory[C]) fail(now time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
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

func (v *Inventory[C]) lookup(id driver.Identity) *entry {
	if id.ProviderID == "" {
		return v.entries[id.UID]
	}
	if uid, ok := v.names[id.ProviderID]; ok {
		return v.entries[uid]
	}
	return nil
}

// note takes over what the cloud said about one instance.
func (v *Inventory[C]) note(instance driver.Instance) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.entries[instance.Identity.UID]
	deleted := known != nil && known.deleted && leaving(instance.State)
	if deleted && instance.State == driver.Stopping {
		v.lingers, v.look = true, instance.PollAfter
	}
	v.put(&entry{instance: instance, fresh: v.options.Now(), deleted: deleted})
}

func (v *Inventory[C]) put(e *entry) {
	v.entries[e.instance.Identity.UID] = e
	v.names[e.instance.ProviderID] = e.instance.Identity.UID
}

func (v *Inventory[C]) doubt(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.lookup(id); known != nil {
		known.doubtful, known.fresh = true, v.options.Now()
	}
}

// leave notes a deletion that the cloud took.
func (v *Inventory[C]) leave(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.lookup(id)
	if known == nil {
		return
	}
	known.deleted, known.fresh = true, v.options.Now()
	if !v.lingers || known.instance.State == driver.Terminated {
		known.doubtful = true
	}
	if !known.doubtful {
		known.instance.State, known.instance.PollAfter = driver.Stopping, v.look
	}
}

func (v *Inventory[C]) forget(id driver.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.lookup(id); known != nil {
		delete(v.names, known.instance.ProviderID)
		delete(v.entries, known.instance.Identity.UID)
	}
}
