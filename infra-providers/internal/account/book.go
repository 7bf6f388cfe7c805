// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package account keeps one connected driver per cloud account and region. It reads the credentials that
// machines refer to, notices when they were rotated, and wraps every driver in what all clouds need
// alike: metrics, a throttle and an inventory. It decides nothing about machines; the reconcilers of this
// module ask it for a driver.
package account

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inventory"
	"drover.io/infra-providers/internal/throttle"
)

const (
	// freshness is how long credentials are trusted before their Secret is read again.
	freshness = time.Minute
	// unsettled is the time between two lists while instances start or stop.
	unsettled = 5 * time.Second
)

// Book hands out drivers.
type Book[M driver.Machine, C any] struct {
	cloud   driver.Cloud[M, C]
	secrets client.Reader
	now     func() time.Time
	changed func(driver.Identity)
	// interval is the time between two lists; zero reads each instance by itself.
	interval time.Duration

	mu    sync.Mutex
	pages map[key]*page[C]
}

// key names an account. The namespace counts only where a Secret does.
type key struct {
	namespace string
	driver.Account
}

type page[C any] struct {
	driver    Account[C]
	inventory *inventory.Inventory[C]
	version   string
	read      time.Time
}

// Account is a connected driver. Abilities are those of the cloud's own driver.
type Account[C any] struct {
	driver.Driver[C]
	// Direct is the driver without the inventory.
	Direct driver.Driver[C]
	// Shortage tells where there was no room or quota a moment ago.
	Shortage func(config C) throttle.Shortage
	// Tag puts the owner of an identity into the tags of what exists; nil for a cloud without that ability.
	Tag func(ctx context.Context, id driver.Identity) error
	// Restart restarts the instance of an identity; nil for a cloud without that ability.
	Restart func(ctx context.Context, id driver.Identity) error
	// Remainder is nil for a cloud without that ability.
	Remainder driver.Remainder
	// Size and FindImage ask under the account's limits; each is nil for a cloud without that ability.
	Size      func(ctx context.Context, config C) (driver.Size, error)
	FindImage func(ctx context.Context, config C) (driver.Image, error)
}

// Options are the dependencies of a Book.
type Options struct {
	// Secrets reads without a cache: whole Secrets must not pile up in memory.
	Secrets client.Reader
	Now     func() time.Time
	// Changed is called when a cloud says, or a list shows, that an instance changed.
	Changed func(driver.Identity)
	// Interval is the time between two lists of an account; zero reads each instance by itself.
	Interval time.Duration
}

// NewBook returns an empty Book for a cloud.
func NewBook[M driver.Machine, C any](cloud driver.Cloud[M, C], options Options) *Book[M, C] {
	return &Book[M, C]{
		cloud:    cloud,
		secrets:  options.Secrets,
		now:      options.Now,
		changed:  options.Changed,
		interval: options.Interval,
		pages:    map[key]*page[C]{},
	}
}

// Driver returns the driver for a machine's account. It fails with UnauthorizedError when there are no
// credentials or they must not be read.
func (b *Book[M, C]) Driver(ctx context.Context, machine M) (Account[C], error) {
	k := keyOf(b.cloud.Account(machine), machine.GetNamespace())
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.pages[k]
	if known != nil && (k.SecretName == "" || b.now().Sub(known.read) < freshness) {
		return known.driver, nil
	}
	credentials, version, err := b.credentials(ctx, k)
	if err != nil {
		return Account[C]{}, err
	}
	if known != nil && known.version == version {
		known.read = b.now()
		return known.driver, nil
	}
	connected, err := b.cloud.Connect(ctx, k.Account, credentials)
	if err != nil {
		return Account[C]{}, fmt.Errorf("connecting to %s: %w", b.cloud.Name, err)
	}
	opened := b.open(connected)
	opened.version, opened.read = version, b.now()
	b.pages[k] = opened
	return opened.driver, nil
}

// Refused makes the next Driver call read the credentials of a machine's account again.
func (b *Book[M, C]) Refused(machine M) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.pages[keyOf(b.cloud.Account(machine), machine.GetNamespace())]; known != nil {
		known.read = time.Time{}
	}
}

// Start lists every account once per interval until ctx is done.
func (b *Book[M, C]) Start(ctx context.Context) error {
	if b.interval <= 0 {
		return nil
	}
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			for _, inventory := range b.inventories() {
				if err := inventory.Refresh(ctx); err != nil && ctx.Err() == nil {
					ctrl.LoggerFrom(ctx).Error(err, "refreshing inventory", "cloud", b.cloud.Name)
				}
			}
		}
	}
}

// All returns every account that was asked for so far.
func (b *Book[M, C]) All() (all []Account[C]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, page := range b.pages {
		all = append(all, page.driver)
	}
	return all
}

func (b *Book[M, C]) inventories() (all []*inventory.Inventory[C]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, page := range b.pages {
		all = append(all, page.inventory)
	}
	return all
}

// open wraps a connected driver: the inventory is outermost, so that what it answers is not a call.
func (b *Book[M, C]) open(connected driver.Driver[C]) *page[C] {
	remainder, _ := connected.(driver.Remainder)
	meter := &metered[C]{Driver: connected, cloud: b.cloud.Name}
	direct := throttle.New(driver.Driver[C](meter), throttle.Options[C]{
		Limits: b.cloud.Limits,
		Place:  b.cloud.Place,
		Now:    b.now,
		Jitter: rand.Float64,
	})
	opened := &page[C]{driver: Account[C]{Driver: direct, Direct: direct, Shortage: direct.Shortage, Remainder: remainder}}
	if sizer, ok := connected.(driver.Sizer[C]); ok {
		opened.driver.Size = limited(direct, sizer.Size)
	}
	if finder, ok := connected.(driver.ImageFinder[C]); ok {
		opened.driver.FindImage = limited(direct, finder.FindImage)
	}
	changed := b.changed
	if b.interval > 0 {
		opened.inventory = inventory.New[C](direct, inventory.Options{Interval: b.interval, Unsettled: unsettled, Now: b.now, Changed: b.changed})
		opened.driver.Driver = opened.inventory
		changed = func(id driver.Identity) {
			opened.touch(id)
			b.changed(id)
		}
	}
	if tagger, ok := connected.(driver.Tagger); ok {
		opened.driver.Tag = func(ctx context.Context, id driver.Identity) error {
			defer opened.touch(id)
			return direct.Do(func() error { return tagger.Tag(ctx, id) })
		}
	}
	if restarter, ok := connected.(driver.Restarter); ok {
		opened.driver.Restart = func(ctx context.Context, id driver.Identity) error {
			defer opened.touch(id)
			return direct.Do(func() error { return meter.restart(ctx, restarter, id) })
		}
	}
	if notifier, ok := connected.(driver.Notifier); ok {
		notifier.Notify(changed)
	}
	return opened
}

// limited makes a question to the cloud count as a call of the account.
func limited[C, A any](under *throttle.Throttle[C], ask func(context.Context, C) (A, error)) func(context.Context, C) (A, error) {
	return func(ctx context.Context, config C) (answer A, err error) {
		err = under.Do(func() error {
			answer, err = ask(ctx, config)
			return err
		})
		return answer, err
	}
}

// touch makes the next read of an instance a direct one.
func (p *page[C]) touch(id driver.Identity) {
	if p.inventory != nil {
		p.inventory.Touch(id)
	}
}

func (b *Book[M, C]) credentials(ctx context.Context, k key) (driver.Credentials, string, error) {
	if k.SecretName == "" {
		return nil, "", nil
	}
	secret := &corev1.Secret{}
	err := b.secrets.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.SecretName}, secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, "", &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials: %w", err)}
	case err != nil: // the API server's own trouble says nothing about them
		return nil, "", fmt.Errorf("reading credentials: %w", err)
	}
	return secret.Data, secret.ResourceVersion, nil
}

func keyOf(account driver.Account, namespace string) key {
	if account.SecretName == "" {
		namespace = ""
	}
	return key{namespace: namespace, Account: account}
}
