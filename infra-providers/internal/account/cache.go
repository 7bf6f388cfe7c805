// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package account keeps one connected driver per cloud account and region. It reads the credentials that
// machines refer to, connects again when they were rotated, and wraps every driver in what all clouds need: metrics,
// deadlines, a throttle and an inventory.
//
// It also keeps accounts apart: the provider's own credentials are for namespaces that the operator allows and for
// the provider's own endpoint, a machine that is pinned to an account is served by no other, and an account that does
// not answer holds only a share of the workers, however many of them one namespace has. It decides nothing else about
// machines; the reconcilers of this module get their drivers here.
package account

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/panicerror"
)

const (
	// freshness is how long credentials are used before their Secret is read again.
	freshness = time.Minute
	// unsettled is the time between two lists while instances start or stop.
	unsettled = 5 * time.Second
	// idleTimeout is how long an account is kept that no machine and no template uses.
	idleTimeout = time.Hour
	// maxPerNamespace is how many instances are kept in memory of all accounts of the Secrets of one namespace: the
	// servers that they name may return any number.
	maxPerNamespace = 50_000
	// maxRegions is how many regions and endpoints are connected with the same credentials for one namespace: each costs a
	// connection and its lists, and the author of a spec may write any name. More are connected for instances that exist.
	maxRegions = 64
)

// Cache has the drivers of all accounts.
type Cache[M driver.Machine, C any] struct {
	cloud      driver.Cloud[M, C]
	options    Options
	permission *permission
	gate       *gate

	mu      sync.Mutex
	entries map[key]*entry[C]
}

// key names an account. The namespace counts only where a Secret does.
type key struct {
	namespace string
	driver.Account
}

// String is different for every account.
func (k key) String() string {
	return fmt.Sprintf("%q %q %q %q", k.namespace, k.SecretName, k.Region, k.Endpoint)
}

// source names where the credentials come from.
func (k key) source() string {
	if k.SecretName == "" {
		return "the provider's own credentials"
	}
	return fmt.Sprintf("Secret %q", k.SecretName)
}

// entry is what is kept of one account.
type entry[C any] struct {
	// used is when the account was last used, users when by each namespace; the Cache's lock guards them.
	used  time.Time
	users map[string]time.Time
	// kept is how many instances its inventory has.
	kept atomic.Int64
	// guard is that of its drivers.
	guard *guard

	// mu is held while credentials are read, and never during a call to the cloud.
	mu        sync.Mutex
	connected *connection[C]
	version   string
	read      time.Time
	// refused is true once the cloud refused the credentials of that version.
	refused bool
}

// Options are the dependencies of a Cache.
type Options struct {
	// Secrets reads without a cache: whole Secrets must not pile up in memory.
	Secrets client.Reader
	// Namespaces reads without a cache; nil where no label of a Namespace counts.
	Namespaces client.Reader
	// OwnCredentials are the namespaces that may use the provider's own credentials whatever their labels, or
	// EveryNamespace.
	OwnCredentials []string
	Now            func() time.Time
	// Changed is called when a cloud reports, or a list shows, that an instance changed.
	Changed func(driver.Identity)
	// Journal is where the drivers of clouds without tags and tokens keep their journals.
	Journal driver.Journal
	// Interval is the time between two lists of an account; zero reads each instance by itself.
	Interval time.Duration
	// Workers are how many callers there are, of which no account and no namespace may hold all; zero is no limit.
	Workers int
}

// NewCache returns an empty Cache for a cloud.
func NewCache[M driver.Machine, C any](cloud driver.Cloud[M, C], options Options) *Cache[M, C] {
	return &Cache[M, C]{
		cloud:      cloud,
		options:    options,
		permission: newPermission(options),
		gate:       newGate(options.Workers, options.Now),
		entries:    map[key]*entry[C]{},
	}
}

// Pinned returns the account that a machine is pinned to; empty before it was. The annotation outlives a move, and is
// what a user may correct.
func Pinned(machine driver.Machine) string {
	return cmp.Or(machine.GetAnnotations()[infrav1.AccountAnnotation], machine.GetStatus().Account)
}

// Driver returns the driver for a machine's account. It fails with InvalidConfigurationError where the machine names
// an endpoint and no credentials for it, with UnauthorizedError when there are no credentials, or they must not be
// read, or are the provider's own and not for this namespace, and with AccountMismatchError when they lead to another
// account than the machine is pinned to.
func (c *Cache[M, C]) Driver(ctx context.Context, machine M) (Account[C], error) {
	k, pinned := keyOf(c.cloud.Account(machine), machine.GetNamespace()), Pinned(machine)
	if k.Endpoint != "" && k.SecretName == "" {
		return Account[C]{}, driver.EndpointWithoutSecret(k.Account)
	}
	instance := hasInstance(machine, pinned)
	if k.SecretName == "" && !c.cloud.NoCredentials && !instance {
		if err := c.permission.check(ctx, machine.GetNamespace()); err != nil {
			return Account[C]{}, err
		}
	}
	e, err := c.entry(k, machine.GetNamespace(), instance)
	if err != nil {
		return Account[C]{}, err
	}
	connected, err := c.present(ctx, k, e)
	if err != nil || pinned == "" {
		return connected.account(machine.GetNamespace()), err
	}
	switch id, err := connected.identify(ctx, machine.GetNamespace()); {
	case err != nil:
		return Account[C]{}, err
	case id != pinned:
		return Account[C]{}, &driver.AccountMismatchError{Pinned: pinned, Connected: id, Source: k.source()}
	}
	return connected.account(machine.GetNamespace()), nil
}

// hasInstance reports whether a machine may have an instance in the account that it is pinned to, by its status: a
// namespace that loses the permission to use credentials can create no instances and can still delete those that it has.
// An annotation is not enough, because the machine's owner may write it.
func hasInstance(machine driver.Machine, pinned string) bool {
	return pinned != "" && machine.GetStatus().Account == pinned &&
		(machine.GetProviderID() != "" || !machine.GetDeletionTimestamp().IsZero())
}

// present returns the connection of an account with the present credentials.
func (c *Cache[M, C]) present(ctx context.Context, k key, e *entry[C]) (*connection[C], error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := c.renew(ctx, k, e); err != nil {
		return nil, err
	}
	return e.connected, nil
}

// entry returns the entry of an account that a namespace uses. It fails with UnauthorizedError for one region more than a
// namespace may use, unless that has an instance of the namespace.
func (c *Cache[M, C]) entry(k key, namespace string, instance bool) (*entry[C], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	e := c.entries[k]
	if (e == nil || !e.usedBy(namespace, now)) && !instance && c.regions(k, namespace, now) >= maxRegions {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf(
			"namespace %q uses %d regions or servers with %s, which is the most: delete machines and templates of others, which count for an hour longer", namespace, maxRegions, k.source())}
	}
	if e == nil {
		e = &entry[C]{guard: &guard{cloud: c.cloud.Name, account: k.String(), namespace: k.namespace}, users: map[string]time.Time{}}
		c.entries[k] = e
	}
	e.used, e.users[namespace] = now, now
	return e, nil
}

// regions is how many accounts a namespace uses with the credentials of one. The caller holds the lock.
func (c *Cache[M, C]) regions(of key, namespace string, now time.Time) (count int) {
	for k, e := range c.entries {
		if k.namespace == of.namespace && k.SecretName == of.SecretName && e.usedBy(namespace, now) {
			count++
		}
	}
	return count
}

// usedBy reports whether a namespace used the account a while ago at most.
func (e *entry[C]) usedBy(namespace string, now time.Time) bool {
	last, known := e.users[namespace]
	return known && now.Sub(last) < idleTimeout
}

// renew makes sure that an entry has the connection of its present credentials. One that leads to another account than
// before is replaced, so that machines are compared with the account that it leads to now. The caller holds its lock.
func (c *Cache[M, C]) renew(ctx context.Context, k key, e *entry[C]) error {
	if e.guard.moved.Swap(false) {
		e.connected, e.version = nil, ""
	}
	if e.connected != nil && (k.SecretName == "" || c.options.Now().Sub(e.read) < freshness) {
		return nil
	}
	credentials, version, err := c.credentials(ctx, k)
	if apierrors.IsNotFound(err) && e.connected != nil {
		switch ending, unknown := isEnding(ctx, c.options.Namespaces, k.namespace); {
		case unknown != nil:
			return unknown
		case ending:
			e.read = c.options.Now()
			return nil
		}
	}
	if driver.IsUnauthorized(err) {
		c.drop(ctx, k, e, err)
	}
	if err != nil {
		return err
	}
	if e.connected != nil && e.version == version {
		e.read = c.options.Now()
		return nil
	}
	var connected driver.Driver[C]
	err = panicerror.Call(func() (err error) {
		connected, err = c.cloud.Connect(ctx, k.Account, credentials)
		return err
	})
	e.guard.note(ctx, "connect", err)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.cloud.Name, boundError(err))
	}
	if e.connected == nil {
		logAccount(ctx, k, "added account")
	} else {
		logAccount(ctx, k, "replaced credentials of account")
	}
	e.connected, e.version, e.read, e.refused = c.open(k, e, connected), version, c.options.Now(), false
	return nil
}

// drop removes an account, with its driver, inventory and credentials. A caller that waits for the entry gets none of
// these.
func (c *Cache[M, C]) drop(ctx context.Context, k key, e *entry[C], cause error) {
	if e.connected != nil {
		logAccount(ctx, k, "removed account", "message", cause.Error())
	}
	e.connected, e.version, e.read, e.refused = nil, "", time.Time{}, false
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[k] == e {
		delete(c.entries, k)
	}
}

// Refused makes the next Driver call read the credentials of a machine's account again. It logs the first refusal of
// credentials.
func (c *Cache[M, C]) Refused(ctx context.Context, machine M, cause error) {
	c.permission.reset(machine.GetNamespace())
	k := keyOf(c.cloud.Account(machine), machine.GetNamespace())
	c.mu.Lock()
	e := c.entries[k]
	c.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read = time.Time{}
	if e.connected != nil && !e.refused && driver.IsUnauthorized(cause) {
		e.refused = true
		logAccount(ctx, k, "account refused", "message", cause.Error())
	}
}

// All returns every account that is connected.
func (c *Cache[M, C]) All() (all []Account[C]) {
	for k, e := range c.snapshot() {
		e.mu.Lock()
		if e.connected != nil {
			all = append(all, e.connected.account(k.namespace))
		}
		e.mu.Unlock()
	}
	return all
}

// maxInstances returns how many instances may be kept of an account, beside those of the other accounts of its namespace.
func (c *Cache[M, C]) maxInstances(of key) int {
	if of.namespace == "" {
		return math.MaxInt
	}
	left := maxPerNamespace
	for k, e := range c.snapshot() {
		if k.namespace == of.namespace && k != of {
			left -= int(e.kept.Load())
		}
	}
	return max(left, 0)
}

func (c *Cache[M, C]) snapshot() map[key]*entry[C] {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[key]*entry[C], len(c.entries))
	for k, e := range c.entries {
		all[k] = e
	}
	return all
}

func (c *Cache[M, C]) credentials(ctx context.Context, k key) (driver.Credentials, string, error) {
	if k.SecretName == "" {
		return nil, "", nil
	}
	secret := &corev1.Secret{}
	err := c.options.Secrets.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.SecretName}, secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, "", &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials: %w", err)}
	case err != nil: // a failure of the API server, which is no property of the credentials
		return nil, "", fmt.Errorf("reading credentials: %w", err)
	}
	return secret.Data, string(secret.UID) + secret.ResourceVersion, nil
}

func keyOf(account driver.Account, namespace string) key {
	if account.SecretName == "" {
		namespace = ""
	}
	return key{namespace: namespace, Account: account}
}
