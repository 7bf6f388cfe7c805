// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/fairshare"
)

const (
	// slow is how long a call may take before its account counts as slow.
	slow = 5 * time.Second
	// slowFor is how long an account counts as slow after a slow call.
	slowFor = time.Minute
	// slowest is which part of the workers all slow accounts together may hold.
	slowest = 3
)

// gate bounds how many workers the accounts hold. All that the Secrets of one namespace lead to count together, and so
// does each account of the provider's own credentials, whose share is divided among the namespaces that use it. So do all
// calls for one namespace, which may use many regions. Accounts that are slow share a part of the workers; one of the
// provider's own credentials is slow for each namespace by itself, because a call may be slow by what it reads for one.
type gate struct {
	now     func() time.Time
	workers int

	all, slow *fairshare.Seats[key]
	// callers are divided among the namespaces for which the calls are, in whatever account.
	callers *fairshare.Seats[string]

	mu       sync.Mutex
	accounts map[key]*calls
}

// calls are those to one account that are under way.
type calls struct {
	began map[*call]time.Time
	// slowUntil are by namespace of the caller.
	slowUntil map[string]time.Time
	// share is divided among the namespaces of the callers.
	share *fairshare.Seats[string]
}

// call is one that is under way.
type call struct {
	account key
	// namespace is that of the caller; empty where the call is for none, and for an account of a namespace's Secret.
	namespace string
	// seats are what it holds.
	seats []seat
}

// seat is one of several that are divided.
type seat struct {
	take func() bool
	give func()
}

func seatOf[K comparable](of *fairshare.Seats[K], holder K) seat {
	return seat{func() bool { return of.Acquire(holder) }, func() { of.Release(holder) }}
}

// newGate returns the gate of so many workers; zero is no limit.
func newGate(workers int, now func() time.Time) *gate {
	return &gate{
		now:      now,
		workers:  workers,
		all:      fairshare.New[key](workers),
		slow:     fairshare.New[key](min(workers, max(2, workers/slowest))),
		callers:  fairshare.New[string](workers),
		accounts: map[key]*calls{},
	}
}

// enter takes a worker for a call of an account on behalf of a namespace, and returns how to give it back. It never waits:
// it fails with BusyError.
func (g *gate) enter(k key, namespace string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wanted := []seat{seatOf(g.callers, cmp.Or(k.namespace, namespace)), seatOf(g.all, k.holder())}
	if k.namespace != "" {
		namespace = ""
	}
	known := g.accounts[k]
	if known == nil {
		known = &calls{began: map[*call]time.Time{}, slowUntil: map[string]time.Time{}}
		if k.namespace == "" {
			known.share = fairshare.New[string]((g.workers + 1) / 2) // the most that one account gets
		}
	}
	one := &call{account: k, namespace: namespace}
	if known.slow(namespace, g.now()) {
		wanted = append(wanted, seatOf(g.slow, one.slowHolder()))
	}
	if known.share != nil {
		wanted = append(wanted, seatOf(known.share, namespace))
	}
	for _, next := range wanted {
		if !next.take() {
			one.giveBack()
			return nil, &driver.BusyError{}
		}
		one.seats = append(one.seats, next)
	}
	g.accounts[k] = known
	known.began[one] = g.now()
	return sync.OnceFunc(func() { g.leave(one) }), nil
}

func (g *gate) leave(one *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, known := g.now(), g.accounts[one.account]
	if now.Sub(known.began[one]) >= slow {
		known.slowUntil[one.namespace] = now.Add(slowFor)
	}
	delete(known.began, one)
	one.giveBack()
	maps.DeleteFunc(g.accounts, func(_ key, each *calls) bool {
		maps.DeleteFunc(each.slowUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
		return len(each.began) == 0 && len(each.slowUntil) == 0
	})
}

func (c *call) giveBack() {
	for _, held := range c.seats {
		held.give()
	}
}

// slow reports whether a call for a namespace that is under way takes long, or one did a moment ago.
func (c *calls) slow(namespace string, now time.Time) bool {
	if now.Before(c.slowUntil[namespace]) {
		return true
	}
	for one, began := range c.began {
		if one.namespace == namespace && now.Sub(began) >= slow {
			return true
		}
	}
	return false
}

// slowHolder is who holds the seat of a call that is slow: the namespace for which it is, or that of the Secret.
func (c *call) slowHolder() key {
	if c.namespace == "" {
		return c.account.holder()
	}
	return key{namespace: c.namespace}
}

// holder is who holds the worker of a call to an account: the namespace of its Secret, which may have any number of
// them, or the account itself where the credentials are the provider's own.
func (k key) holder() key {
	if k.namespace == "" {
		return k
	}
	return key{namespace: k.namespace}
}

// gated is a driver whose calls hold a worker.
type gated[C any] struct {
	driver.Driver[C]
	enter func(namespace string) (leave func(), err error)
}

func (g *gated[C]) Create(ctx context.Context, req driver.CreateRequest[C]) (driver.Instance, error) {
	leave, err := g.enter(req.Identity.Owner.Namespace)
	if err != nil {
		return driver.Instance{}, err
	}
	defer leave()
	return g.Driver.Create(ctx, req)
}

func (g *gated[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	leave, err := g.enter(id.Owner.Namespace)
	if err != nil {
		return driver.Instance{}, err
	}
	defer leave()
	return g.Driver.Get(ctx, id)
}

func (g *gated[C]) Delete(ctx context.Context, id driver.Identity) error {
	leave, err := g.enter(id.Owner.Namespace)
	if err != nil {
		return err
	}
	defer leave()
	return g.Driver.Delete(ctx, id)
}
