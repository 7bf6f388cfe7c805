// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package account keeps one connected driver per cloud account and region. It reads the credentials that
// machines refer to, notices when they were rotated, and wraps every driver in what all clouds need
// alike: metrics. It decides nothing about machines; the reconcilers of this module ask it for a driver.
package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
)

// freshness is how long credentials are trusted before their Secret is read again.
const freshness = time.Minute

// Book hands out drivers.
type Book[M driver.Machine, C any] struct {
	cloud   driver.Cloud[M, C]
	secrets client.Reader
	now     func() time.Time
	changed func(driver.Identity)

	mu    sync.Mutex
	pages map[key]*page[C]
}

// key names an account. The namespace counts only where a Secret does.
type key struct {
	namespace string
	driver.Account
}

type page[C any] struct {
	driver  Account[C]
	version string
	read    time.Time
}

// Account is a connected driver. Abilities are those of the cloud's own driver.
type Account[C any] struct {
	driver.Driver[C]
	// Sizer is nil for a cloud without that ability.
	Sizer driver.Sizer[C]
}

// Options are the dependencies of a Book.
type Options struct {
	// Secrets reads without a cache: whole Secrets must not pile up in memory.
	Secrets client.Reader
	Now     func() time.Time
	// Changed is called when a cloud says that an instance changed.
	Changed func(driver.Identity)
}

// NewBook returns an empty Book for a cloud.
func NewBook[M driver.Machine, C any](cloud driver.Cloud[M, C], options Options) *Book[M, C] {
	return &Book[M, C]{
		cloud:   cloud,
		secrets: options.Secrets,
		now:     options.Now,
		changed: options.Changed,
		pages:   map[key]*page[C]{},
	}
}

// Driver returns the driver for a machine's account. It fails with UnauthorizedError when the credentials
// cannot be had.
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
	opened := &page[C]{driver: b.open(connected), version: version, read: b.now()}
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

func (b *Book[M, C]) open(connected driver.Driver[C]) Account[C] {
	if notifier, ok := connected.(driver.Notifier); ok && b.changed != nil {
		notifier.Notify(b.changed)
	}
	sizer, _ := connected.(driver.Sizer[C])
	return Account[C]{Driver: &metered[C]{Driver: connected, cloud: b.cloud.Name}, Sizer: sizer}
}

func (b *Book[M, C]) credentials(ctx context.Context, k key) (driver.Credentials, string, error) {
	if k.SecretName == "" {
		return nil, "", nil
	}
	secret := &corev1.Secret{}
	if err := b.secrets.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.SecretName}, secret); err != nil {
		return nil, "", &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials: %w", err)}
	}
	return secret.Data, secret.ResourceVersion, nil
}

func keyOf(account driver.Account, namespace string) key {
	if account.SecretName == "" {
		namespace = ""
	}
	return key{namespace: namespace, Account: account}
}
