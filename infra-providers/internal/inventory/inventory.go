// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory reads a cloud once instead of once per machine. It is a driver around a driver: it
// lists everything of ours in one account and region per interval and answers Get from that, together with
// the answers of its own writes.
//
// It is safe where lists lag: an instance that a complete list does not show counts as missing only after a direct read,
// a list never replaces what was written or read after it began, and a list that failed half-way has no effect. It decides
// nothing; package account puts one around each driver.
//
// A deletion is proven by one direct read. Where instances are removed at once, that is right after the deletion; once one
// took a while, the lists show the progress of all later ones:
//
//	Delete ─► stopping ─► a list shows it stopping ─► still stopping
//	             │        a list shows it running: the list is behind, or the cloud lost the deletion ─► read
//	             └──────► no list shows it ────────────────────────────────────────────────────────────► read
package inventory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"drover.io/infra-providers/driver"
)

// Options are the settings of an inventory.
type Options struct {
	// Interval is the time between lists while every instance is settled.
	Interval time.Duration
	// Unsettled is the time between lists while an instance is read that starts or stops.
	Unsettled time.Duration
	Now       func() time.Time
	// RemembersRemovals is true for a driver whose lists show what it remembers of a removal, and not that it has failed. What
	// stops is then read by itself after an interval.
	RemembersRemovals bool
	// Changed is called for each instance that a list shows in another state, or no longer.
	Changed func(driver.Identity)
	// Max returns how many instances may be kept; nil for no limit. While the cloud has more, nothing is kept and
	// every instance is read by itself.
	Max func() int
	// Kept is set to how many are kept; nil for none.
	Kept *atomic.Int64
}

// ErrTooMany means that a list has more instances than may be kept.
var ErrTooMany = errors.New("the account has more instances than are kept in memory, so each is read by itself")

// Inventory implements driver.Driver.
type Inventory[C any] struct {
	driver.Driver[C]
	options Options

	// refreshing is held while listing, so that there is one list at a time.
	refreshing sync.Mutex

	mu sync.Mutex
	// entries are by provider ID, and copies by what names a machine without one.
	entries map[string]*entry
	copies  map[driver.Identity]map[*entry]struct{}
	// cost is that of all entries, and listing that of a list that is being read.
	cost, listing int
	// listed is when the last complete list began, next when the next one may begin.
	listed, next time.Time
	// refused is why the last list failed, where that will not pass by itself.
	refused error
	// lingers is true once an instance still existed right after its deletion; pollAfter is that instance's.
	lingers   bool
	pollAfter time.Duration
}

type entry struct {
	instance driver.Instance
	// fresh is when the instance was last written or read by itself.
	fresh time.Time
	// stale means that only a direct read counts: it was just changed, or a list is behind.
	stale bool
	// deleted is true after a deletion that the cloud accepted.
	deleted bool
}

// New returns an empty inventory of what a driver can see.
func New[C any](of driver.Driver[C], options Options) *Inventory[C] {
	return &Inventory[C]{Driver: of, options: options, entries: map[string]*entry{}, copies: map[driver.Identity]map[*entry]struct{}{}}
}

// Create implements driver.Driver and keeps the answer.
func (v *Inventory[C]) Create(ctx context.Context, req driver.CreateRequest[C]) (driver.Instance, error) {
	created, err := v.Driver.Create(ctx, req)
	if err != nil {
		v.markStale(req.Identity)
		return created, err
	}
	v.keep(created)
	return created, nil
}

// Delete implements driver.Driver. The next Get reads directly, which verifies the deletion, unless that is
// known to be too early.
func (v *Inventory[C]) Delete(ctx context.Context, id driver.Identity) error {
	if err := v.Driver.Delete(ctx, id); err != nil {
		v.markStale(id)
		return err
	}
	v.markDeleted(id)
	return nil
}

// Get implements driver.Driver from the last list. What the list does not show, or what changed since, is read directly.
func (v *Inventory[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := v.refreshIfDue(ctx, id); err != nil {
		return driver.Instance{}, err
	}
	if known, ok := v.find(id); ok && !isOfUnknownOwner(id, known) {
		if err := id.Check(known.Identity); err != nil {
			return driver.Instance{}, err
		}
		return known, nil
	}
	found, err := v.Driver.Get(ctx, id)
	switch {
	case driver.IsNotFound(err), err == nil && found.State == driver.Terminated:
		v.drop(id)
	case err == nil && (id.ProviderID == "" || id.ProviderID == found.ProviderID): // another ID of it would be another entry each time
		v.keep(found)
	}
	return found, err
}

// isOfUnknownOwner reports whether the list may not have the names of an instance: a machine that lost its UID is the one by which
// a driver finds them where a cloud has no tags.
func isOfUnknownOwner(id driver.Identity, known driver.Instance) bool {
	return id.UID == "" && id.Check(known.Identity) != nil
}

// Touch makes the next Get of an instance read directly.
func (v *Inventory[C]) Touch(id driver.Identity) { v.markStale(id) }

// Keep keeps the instance that a call returned that is not one of driver.Driver.
func (v *Inventory[C]) Keep(found driver.Instance) { v.keep(found) }

// Refresh lists now, unless a list is under way or was refused a moment ago.
func (v *Inventory[C]) Refresh(ctx context.Context) error {
	if !v.refreshing.TryLock() {
		return nil
	}
	defer v.refreshing.Unlock()
	return v.refresh(ctx)
}

// refreshIfDue lists if the list is too old for this identity. While another caller lists, the entries are used as they
// are; only the first list is waited for.
func (v *Inventory[C]) refreshIfDue(ctx context.Context, id driver.Identity) error {
	never, due := v.due(id)
	switch {
	case !due:
		return v.refusal()
	case never:
		v.refreshing.Lock()
	case !v.refreshing.TryLock():
		return v.refusal()
	}
	defer v.refreshing.Unlock()
	if _, due := v.due(id); due {
		// After a transient failure of a list, the entries are used as they are. What can never be listed, such as a datacenter
		// that does not exist, is read by itself.
		err := v.refresh(ctx)
		unlisted := errors.Is(err, ErrTooMany) || driver.IsInvalidConfiguration(err)
		if err != nil && !unlisted && (never || ctx.Err() != nil) {
			return err
		}
	}
	return v.refusal()
}

func (v *Inventory[C]) due(id driver.Identity) (never, due bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.options.Now()
	if now.Before(v.next) {
		return false, false
	}
	since, age := v.listed, v.options.Interval
	if known := v.lookup(id); known != nil && !known.stale && unsettled(known.instance) {
		age = v.options.Unsettled
		if known.deleted && known.fresh.After(since) {
			since = known.fresh
		}
	}
	never = v.listed.IsZero()
	return never, never || now.Sub(since) >= age
}

func unsettled(instance driver.Instance) bool {
	return instance.State == driver.Pending || instance.State == driver.Stopping
}
