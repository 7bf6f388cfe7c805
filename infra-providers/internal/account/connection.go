// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inventory"
	"drover.io/infra-providers/internal/throttle"
)

// maxID is how many bytes the name of an account may have: it is stored with each machine.
const maxID = 512

// Account is a connected driver. Abilities are those of the cloud's own driver.
type Account[C any] struct {
	driver.Driver[C]
	// Name identifies the account among all that are connected.
	Name string
	// Namespace is that of the Secret with the credentials; empty where they are the provider's own.
	Namespace string
	// Direct is the driver without the inventory, and without a share in the workers.
	Direct driver.Driver[C]
	// ID names the account that the credentials lead to; empty for a cloud that has no such name.
	ID func(ctx context.Context) (string, error)
	// UnavailableOffering returns why the offering of a configuration had no capacity or quota for the machines of a namespace a moment ago.
	UnavailableOffering func(namespace string, config C) throttle.UnavailableOffering
	// Provision takes the next step of an instance; nil for a cloud without that ability.
	Provision func(ctx context.Context, id driver.Identity) (driver.Instance, error)
	// Tag puts the owner of an identity into the tags of what exists; nil for a cloud without that ability.
	Tag func(ctx context.Context, id driver.Identity) error
	// Restart restarts the instance of an identity; nil for a cloud without that ability.
	Restart func(ctx context.Context, id driver.Identity) error
	// Console reads the console of an instance; nil for a cloud without that ability.
	Console func(ctx context.Context, id driver.Identity) ([]byte, error)
	// AttachedObjects is nil for a cloud without that ability.
	AttachedObjects driver.AttachedObjectLister
	// Capacity and FindImage read what a template in a namespace names; nil for a cloud without that ability.
	Capacity  func(ctx context.Context, namespace string, config C) (driver.Capacity, error)
	FindImage func(ctx context.Context, namespace string, config C) (driver.Image, error)
}

// connection is one connection with one version of an account's credentials.
type connection[C any] struct {
	driver    Account[C]
	inventory *inventory.Inventory[C]
	enter     func(namespace string) (leave func(), err error)
	// accountID reads the name of the account from the cloud; nil where it has none.
	accountID func(ctx context.Context) (string, error)

	// identifying is held during that call, by no more callers than their namespaces' shares.
	identifying sync.Mutex
	mu          sync.Mutex
	id          string
}

// account returns what callers of a namespace get; the zero Account of no connection.
func (c *connection[C]) account(namespace string) Account[C] {
	if c == nil {
		return Account[C]{}
	}
	account := c.driver
	account.ID = func(ctx context.Context) (string, error) { return c.identify(ctx, namespace) }
	return account
}

// identify returns the name of the account, which is read from the cloud once.
func (c *connection[C]) identify(ctx context.Context, namespace string) (string, error) {
	if id := c.known(); id != "" || c.accountID == nil {
		return id, nil
	}
	leave, err := c.enter(namespace)
	if err != nil {
		return "", err
	}
	defer leave()
	c.identifying.Lock()
	defer c.identifying.Unlock()
	if id := c.known(); id != "" {
		return id, nil
	}
	id, err := c.accountID(ctx)
	if err != nil {
		return "", err
	}
	if len(id) > maxID {
		return "", fmt.Errorf("the name of the account has %d bytes, and %d are possible", len(id), maxID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	return id, nil
}

func (c *connection[C]) known() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// open wraps a connected driver. From the outside in: the share in the workers; the inventory, so that its answers are
// not calls; the throttle; deadlines and metrics.
func (c *Cache[M, C]) open(k key, e *entry[C], connected driver.Driver[C]) *connection[C] {
	journaled, remembers := connected.(driver.Journaled)
	if remembers && c.options.Journal != nil {
		journaled.UseJournal(c.options.Journal)
	}
	meter := &metered[C]{Driver: connected, cloud: c.cloud.Name, guard: e.guard}
	var attached driver.AttachedObjectLister
	if able, ok := connected.(driver.AttachedObjectLister); ok {
		attached = bounded{able, e.guard, meter.observe}
	}
	direct := throttle.New(driver.Driver[C](meter), throttle.Options[C]{
		Cloud:    c.cloud.Name,
		Limits:   c.cloud.Limits,
		Offering: c.cloud.Offering,
		Now:      c.options.Now,
		Jitter:   rand.Float64,
	})
	opened := &connection[C]{enter: func(namespace string) (func(), error) { return c.gate.enter(k, namespace) }}
	opened.driver = Account[C]{Name: k.String(), Namespace: k.namespace, Direct: direct, UnavailableOffering: direct.UnavailableOffering, AttachedObjects: attached}
	changed := c.changed(k)
	outer, notified := driver.Driver[C](direct), changed
	if c.options.Interval > 0 {
		opened.inventory = inventory.New[C](direct, inventory.Options{
			Interval: c.options.Interval, Unsettled: unsettled, Now: c.options.Now, Changed: changed,
			Max: func() int { return c.maxInstances(k) }, Kept: &e.kept, RemembersRemovals: remembers,
		})
		outer = opened.inventory
		notified = func(id driver.Identity) {
			opened.touch(id)
			changed(id)
		}
	}
	opened.driver.Driver = &gated[C]{Driver: outer, enter: opened.enter}
	opened.abilities(connected, direct, meter)
	if notifier, ok := connected.(driver.Notifier); ok {
		notifier.Notify(notified)
	}
	return opened
}

// changed is called for instances of an account that changed. The server that a Secret names may show instances of any
// namespace, but what it shows is about those of the Secret's own namespace only.
func (c *Cache[M, C]) changed(k key) func(driver.Identity) {
	return func(id driver.Identity) {
		if k.namespace == "" || k.namespace == id.Owner.Namespace {
			c.options.Changed(id)
		}
	}
}

// abilities adds what is optional. Each counts as a call of the account.
func (c *connection[C]) abilities(connected driver.Driver[C], direct *throttle.Throttle[C], meter *metered[C]) {
	if sizer, ok := connected.(driver.CapacityProvider[C]); ok {
		c.driver.Capacity = limited(c, direct, meter.calls("size"), sizer.Capacity)
	}
	if finder, ok := connected.(driver.ImageFinder[C]); ok {
		c.driver.FindImage = limited(c, direct, meter.calls("image"), finder.FindImage)
	}
	if identifier, ok := connected.(driver.AccountIdentifier); ok {
		c.accountID = func(ctx context.Context) (id string, err error) {
			err = direct.Do("", func() error {
				return meter.within(ctx, "account", callTime, func(ctx context.Context) (err error) {
					id, err = identifier.AccountID(ctx)
					return err
				})
			})
			return id, err
		}
	}
	if provisioner, ok := connected.(driver.Provisioner); ok {
		c.driver.Provision = c.provision(direct, meter, provisioner)
	}
	if tagger, ok := connected.(driver.Tagger); ok {
		c.driver.Tag = c.change(direct, meter, "tag", tagger.Tag)
	}
	if restarter, ok := connected.(driver.Restarter); ok {
		c.driver.Restart = c.change(direct, meter, "restart", restarter.Restart)
	}
	if reader, ok := connected.(driver.ConsoleReader); ok {
		c.driver.Console = c.console(direct, meter, reader)
	}
}

// console makes the read of a console count as a call of the account.
func (c *connection[C]) console(direct *throttle.Throttle[C], meter *metered[C], reader driver.ConsoleReader) func(context.Context, driver.Identity) ([]byte, error) {
	return func(ctx context.Context, id driver.Identity) (output []byte, err error) {
		leave, err := c.enter(id.Owner.Namespace)
		if err != nil {
			return nil, err
		}
		defer leave()
		err = direct.Do(id.Owner.Namespace, func() error {
			return meter.within(ctx, "console", callTime, func(ctx context.Context) (err error) {
				output, err = reader.Console(ctx, id)
				return err
			})
		})
		return driver.LastOutput(output), err
	}
}

// provision makes a step of an instance count as a call of the account. The inventory takes over the answer.
func (c *connection[C]) provision(direct *throttle.Throttle[C], meter *metered[C], provisioner driver.Provisioner) func(context.Context, driver.Identity) (driver.Instance, error) {
	return func(ctx context.Context, id driver.Identity) (found driver.Instance, err error) {
		leave, err := c.enter(id.Owner.Namespace)
		if err != nil {
			return driver.Instance{}, err
		}
		defer leave()
		err = direct.Do(id.Owner.Namespace, func() error {
			return meter.within(ctx, "provision", callTime, func(ctx context.Context) (err error) {
				found, err = provisioner.Provision(ctx, id)
				return err
			})
		})
		switch {
		case err != nil:
			c.touch(id)
		case c.inventory != nil:
			c.inventory.Keep(found)
		}
		return found, err
	}
}

// change makes a call that changes an instance count as one of the account; the next read of it is a direct one.
func (c *connection[C]) change(direct *throttle.Throttle[C], meter *metered[C], operation string, do func(context.Context, driver.Identity) error) func(context.Context, driver.Identity) error {
	return func(ctx context.Context, id driver.Identity) error {
		leave, err := c.enter(id.Owner.Namespace)
		if err != nil {
			return err
		}
		defer leave()
		defer c.touch(id)
		return direct.Do(id.Owner.Namespace, func() error {
			return meter.within(ctx, operation, callTime, func(ctx context.Context) error { return do(ctx, id) })
		})
	}
}

// limited makes a call that reads for a namespace count as one of the account.
func limited[C, A any](c *connection[C], under *throttle.Throttle[C], within boundedCall, call func(context.Context, C) (A, error)) func(context.Context, string, C) (A, error) {
	return func(ctx context.Context, namespace string, config C) (answer A, err error) {
		leave, err := c.enter(namespace)
		if err != nil {
			return answer, err
		}
		defer leave()
		err = under.Do(namespace, func() error {
			return within(ctx, func(ctx context.Context) (err error) {
				answer, err = call(ctx, config)
				return err
			})
		})
		return answer, err
	}
}

// touch makes the next read of an instance a direct one.
func (c *connection[C]) touch(id driver.Identity) {
	if c.inventory != nil {
		c.inventory.Touch(id)
	}
}
