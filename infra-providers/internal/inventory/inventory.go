// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory reads a cloud once instead of once per machine. It is a driver around a driver: it
// lists everything of ours in one account and region per interval and answers Get from that, together with
// the answers of its own writes.
//
// It is safe where lists lag: an instance that a complete list does not show counts as gone only after a
// direct read, a list never overrules what was written or read after it began, and a list that failed
// half-way counts for nothing. It decides nothing; package account puts one around each driver.
//
// A deletion is proven by one direct read. Where instances go at once, that is right after the deletion; where
// one was seen to take its time, all later ones are waited for together, by the lists:
//
//	Delete ─► stopping ─► a list shows it ─► still stopping
//	             │        a list shows it running: the list is behind, or the cloud forgot ─► read
//	             └──────► a list misses it ─────────────────────────────────────────────────► read
package inventory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Options are the habits of an inventory.
type Options struct {
	// Interval is the time between lists while every instance is settled.
	Interval time.Duration
	// Unsettled is the time between lists while somebody asks for an instance that starts or stops.
	Unsettled time.Duration
	Now       func() time.Time
	// Changed is called for each instance that a list shows in another state, or no longer.
	Changed func(driver.Identity)
	// Most returns how many instances may be kept; nil is no limit. While the cloud has more, nothing is kept and
	// every instance is read by itself.
	Most func() int
	// Kept is how many are kept, as far as lists tell; nil is of no interest.
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
	// entries are by provider ID.
	entries map[string]*entry
	byUID   map[types.UID][]*entry
	// cost is that of all entries.
	cost int
	// listed is when the last complete list began, next when the next one may begin.
	listed, next time.Time
	// refused is why the last list failed, where that will not pass by itself.
	refused error
	// lingers is true once an instance was still there right after its deletion; look is when that one was to
	// be looked at again.
	lingers bool
	observe time.Duration
}

type entry struct {
	instance driver.Instance
	// fresh is when the instance was last written or read by itself.
	fresh time.Time
	// doubtful means that only a direct read counts: it was just changed, or a list is behind.
	doubtful bool
	// deleted is true after a deletion that the cloud took.
	deleted bool
}

// New returns an empty inventory of what a driver can see.
func New[C any](of driver.Driver[C], options Options) *Inventory[C] {
	return &Inventory[C]{Driver: of, options: options, entries: map[string]*entry{}, byUID: map[types.UID][]*entry{}}
}

// Create implements driver.Driver and notes the answer.
func (v *Inventory[C]) Create(ctx context.Context, req driver.Request[C]) (driver.Instance, error) {
	made, err := v.Driver.Create(ctx, req)
	if err != nil {
		v.doubt(req.Identity)
		return made, err
	}
	v.note(made)
	return made, nil
}

// Delete implements driver.Driver. The next Get reads directly, which verifies the deletion, unless that is
// known to be too early.
func (v *Inventory[C]) Delete(ctx context.Context, id driver.Identity) error {
	if err := v.Driver.Delete(ctx, id); err != nil {
		v.doubt(id)
		return err
	}
	v.leave(id)
	return nil
}

// Get implements driver.Driver from the last list. What the list does not show, or what changed since, is
// read directly.
func (v *Inventory[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := v.refreshIfDue(ctx, id); err != nil {
		return driver.Instance{}, err
	}
	if known, ok := v.find(id); ok {
		if err := id.Check(known.Identity); err != nil {
			return driver.Instance{}, err
		}
		return known, nil
	}
	found, err := v.Driver.Get(ctx, id)
	switch {
	case driver.IsNotFound(err), err == nil && found.State == driver.Terminated:
		v.forget(id)
	case err == nil:
		v.note(found)
	}
	return found, err
}

// Touch makes the next Get of an instance read directly.
func (v *Inventory[C]) Touch(id driver.Identity) { v.doubt(id) }

// Note takes over what a call that is not one of driver.Driver's returned about an instance.
func (v *Inventory[C]) Note(found driver.Instance) { v.note(found) }

// Refresh lists now, unless a list is under way or was refused a moment ago.
func (v *Inventory[C]) Refresh(ctx context.Context) error {
	if !v.refreshing.TryLock() {
		return nil
	}
	defer v.refreshing.Unlock()
	return v.refresh(ctx)
}

// refreshIfDue lists if the list is too old for this identity. While somebody else lists, what is known is
// good enough; only before the first list everybody waits.
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
		// A list that failed in a passing way leaves what is known standing.
		if err := v.refresh(ctx); err != nil && !errors.Is(err, ErrTooMany) && (never || ctx.Err() != nil) {
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
	if known := v.lookup(id); known != nil && !known.doubtful && unsettled(known.instance) {
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
