// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/panicerror"
)

const (
	// holderTime bounds the calls to the accounts of one holder in one part of a sweep.
	holderTime = 15 * time.Minute
	// turnTime is how long the turn of a call in the rate of an account is waited for.
	turnTime = time.Minute
	// maxPerHolder is how many resources of the usual size are read of all accounts of one holder together. One with long
	// texts counts as several: the servers that Secrets name choose them.
	maxPerHolder = 100_000
	// maxPerUID is how many instances may have one UID in an account of a namespace: its server may be the tenant's, and each is
	// compared with all that have its UID.
	maxPerUID = 100
)

// errTooMany means that the accounts of one holder have more than that.
var errTooMany = fmt.Errorf("the lists have more than %d entries of the usual size", maxPerHolder)

// listed is one account with its list.
type listed[C any] struct {
	name, namespace string
	cloud           driver.Driver[C]
	// complete is false if the list broke off.
	complete bool
}

// holder is who shares time and space with the account: all accounts that the Secrets of one namespace lead to, or the
// account itself where the credentials are the provider's own.
func (l *listed[C]) holder() string { return holderOf(l.namespace, l.name) }

func holderOf(namespace, account string) string {
	if namespace == "" {
		return account
	}
	return "namespace " + namespace
}

// listAccounts lists what is ours in every account. Nothing is returned of one whose list breaks off.
func (c *Collector[M, C]) listAccounts(ctx context.Context) (accounts map[string]*listed[C], found []Resource, err error) {
	accounts = map[string]*listed[C]{}
	holders := map[string][]account.Account[C]{}
	for _, connected := range c.Accounts.All() {
		one := &listed[C]{name: connected.Name, namespace: connected.Namespace, cloud: connected.Direct}
		accounts[one.name] = one
		holders[one.holder()] = append(holders[one.holder()], connected)
	}
	var mu sync.Mutex
	count := map[string]int{}
	err = concurrently(ctx, holders, func(ctx context.Context, connected account.Account[C]) error {
		one := accounts[connected.Name]
		mu.Lock()
		left := maxPerHolder - count[one.holder()]
		mu.Unlock()
		var things []Resource
		var cost int
		err := c.inTurn(ctx, func() (err error) {
			things, cost, err = c.everything(ctx, connected, left)
			return err
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		one.complete = true
		count[one.holder()] += cost
		found = append(found, things...)
		return nil
	})
	return accounts, found, err
}

// concurrently calls do with everything that the holders have: for each holder one call after another, and for all
// holders at the same time. A holder whose calls take too long does not get to its end.
func concurrently[T any](ctx context.Context, holders map[string][]T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	var mu sync.Mutex
	var failures []error
	var running sync.WaitGroup
	for holder, each := range holders {
		running.Go(func() {
			for _, one := range each {
				err := ctx.Err()
				if err == nil {
					err = panicerror.Call(func() error { return do(ctx, one) })
				}
				if err != nil {
					mu.Lock()
					failures = append(failures, fmt.Errorf("in %s: %w", holder, err))
					mu.Unlock()
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return kerrors.NewAggregate(failures)
}

// inTurn makes a call, and makes it again in its turn where the rate of the account is used up. A sweep makes each call
// once, so without that other callers could keep it from all of them.
func (c *Collector[M, C]) inTurn(ctx context.Context, call func() error) error {
	err := call()
	wait := driver.RetryAfter(err)
	if !driver.IsRateLimited(err) || wait > turnTime {
		return err
	}
	select {
	case <-ctx.Done():
		return err
	case <-c.Clock.After(wait):
		return call()
	}
}

// everything lists what is ours in one account, up to a maximum, and returns the cost of what it read. In an account whose
// credentials are those of one namespace, that is only what belongs to the namespace: its server could return any tags of others.
// What has no known owner counts as the namespace's.
func (c *Collector[M, C]) everything(ctx context.Context, connected account.Account[C], most int) (all []Resource, cost int, err error) {
	count := func(one int, err error) error {
		if cost += one; err == nil && cost > most {
			return errTooMany
		}
		return err
	}
	keep := func(thing Resource) {
		if thing.Identity.Owner == driver.UnknownOwner && connected.Namespace != "" {
			thing.Identity.Owner.Namespace = connected.Namespace
		}
		if connected.Namespace == "" || connected.Namespace == thing.Identity.Owner.Namespace {
			thing.Account = connected.Name
			all = append(all, thing)
		}
	}
	for made, err := range connected.Direct.List(ctx, driver.Owner{}) {
		if err := count(made.Cost(), err); err != nil {
			return nil, 0, fmt.Errorf("listing instances: %w", err)
		}
		if made.State == driver.Terminated || made.State == driver.Stopping && !made.StepDue {
			continue
		}
		keep(Resource{Kind: instance, ID: made.ProviderID, Identity: made.Identity, Created: made.Created, ProviderID: c.normalize(made.ProviderID)})
	}
	instances, err := byUID(all, connected.Namespace != "")
	if err != nil {
		return nil, 0, err
	}
	if connected.AttachedObjects == nil {
		return all, cost, nil
	}
	for thing, err := range connected.AttachedObjects.AttachedObjects(ctx, driver.Owner{}) {
		if err := count(thing.Cost(), err); err != nil {
			return nil, 0, fmt.Errorf("listing what is beside instances: %w", err)
		}
		beside := c.instancesOf(thing.Identity, instances[thing.Identity.UID])
		keep(Resource{Kind: thing.Kind, ID: thing.ID, Identity: thing.Identity, Created: thing.Created, Copy: thing.Copy, Instances: beside})
	}
	return all, cost, nil
}

// byUID returns the instances with each UID, and adds them to each with that UID.
func byUID(all []Resource, ofNamespace bool) (map[types.UID][]string, error) {
	instances := map[types.UID][]string{}
	for _, made := range all {
		uid := made.Identity.UID
		if uid == "" {
			continue // it lacks tags
		}
		instances[uid] = append(instances[uid], made.ProviderID)
		if ofNamespace && len(instances[uid]) > maxPerUID {
			return nil, fmt.Errorf("more than %d instances have the UID of machine %q: remove the tags of those that are not of Drover", maxPerUID, made.Identity.Name)
		}
	}
	for i, made := range all {
		all[i].Instances = instances[made.Identity.UID]
	}
	return instances, nil
}

// instancesOf returns the instances that an attached object is beside: those with its UID, and the one that its own tags name.
func (c *Collector[M, C]) instancesOf(id driver.Identity, sameUID []string) []string {
	if id.ProviderID == "" {
		return sameUID
	}
	return append(slices.Clone(sameUID), c.normalize(id.ProviderID))
}
