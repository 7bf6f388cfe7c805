// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

var (
	errLost   = errors.New("connection reset by peer")
	errBroken = errors.New("internal error")
	errFull   = errors.New("the zone is full")
	errOften  = errors.New("slow down")
)

// faultyDriver is a driver any call of which may fail.
type faultyDriver[C any] struct {
	driver.Driver[C]
	rand    *Rand
	answers *answers
	// place names what runs short; nil for a cloud where nothing does.
	place func(C) (instanceType, zone string)
}

// Create implements driver.Driver.
func (s *faultyDriver[C]) Create(ctx context.Context, req driver.CreateRequest[C]) (driver.Instance, error) {
	s.answers.count("create")
	if err := s.short(ctx, req); err != nil {
		return driver.Instance{}, err
	}
	var made driver.Instance
	err := s.call(true, func() (err error) {
		made, err = s.Driver.Create(ctx, req)
		s.answers.see(made, err)
		s.answers.settle(made.Identity.UID)
		return err
	})
	return made, err
}

// short refuses the creation of an instance that does not exist yet, at random, for lack of capacity.
func (s *faultyDriver[C]) short(ctx context.Context, req driver.CreateRequest[C]) (refusal error) {
	if s.place == nil || !s.rand.happens(15, Short) {
		return nil
	}
	s.rand.rest(func() {
		if _, err := s.Driver.Get(ctx, req.Identity); driver.IsNotFound(err) {
			instanceType, zone := s.place(req.Config)
			refusal = &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, Err: errFull}
		}
	})
	return refusal
}

// Get implements driver.Driver.
func (s *faultyDriver[C]) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	s.answers.count("get")
	var found driver.Instance
	err := s.call(false, func() (err error) {
		found, err = s.Driver.Get(ctx, id)
		s.answers.see(found, err)
		return err
	})
	return found, err
}

// AccountID implements driver.AccountIdentifier.
func (s *faultyDriver[C]) AccountID(ctx context.Context) (id string, err error) {
	identifier, able := s.Driver.(driver.AccountIdentifier)
	if !able {
		return "", nil
	}
	err = s.call(false, func() error {
		id, err = identifier.AccountID(ctx)
		return err
	})
	return id, err
}

// provisioning is a faulty driver of a cloud whose instances are finished in steps.
type provisioning[C any] struct {
	*faultyDriver[C]
	provisioner driver.Provisioner
}

// faulty wraps a driver, with its ability to provision.
func faulty[C any](connected driver.Driver[C], of faultyDriver[C]) driver.Driver[C] {
	of.Driver = connected
	if provisioner, able := connected.(driver.Provisioner); able {
		return &provisioning[C]{&of, provisioner}
	}
	return &of
}

// Provision implements driver.Provisioner.
func (p *provisioning[C]) Provision(ctx context.Context, id driver.Identity) (found driver.Instance, err error) {
	p.answers.count("provision")
	err = p.call(true, func() (err error) {
		found, err = p.provisioner.Provision(ctx, id)
		p.answers.see(found, err)
		return err
	})
	return found, err
}

// UseJournal implements driver.Journaled for a driver that has this ability.
func (s *faultyDriver[C]) UseJournal(journal driver.Journal) {
	if journaled, able := s.Driver.(driver.Journaled); able {
		journaled.UseJournal(journal)
	}
}

// Delete implements driver.Driver.
func (s *faultyDriver[C]) Delete(ctx context.Context, id driver.Identity) error {
	s.answers.count("delete")
	return s.call(true, func() error { return s.Driver.Delete(ctx, id) })
}

// List implements driver.Driver. An instance may be missing from it for a while, and it may break off.
func (s *faultyDriver[C]) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		s.answers.count("list")
		if err := s.call(false, func() error { return nil }); err != nil {
			yield(driver.Instance{}, err)
			return
		}
		for instance, err := range s.Driver.List(ctx, owner) {
			s.answers.see(instance, err)
			if err == nil && s.rand.happens(1, Broken) {
				yield(driver.Instance{}, errBroken)
				return
			}
			if err == nil && s.rand.happens(3, Stale) {
				continue
			}
			if !yield(instance, err) {
				return
			}
		}
	}
}

// call makes a call, or not, and returns its answer, or not.
func (s *faultyDriver[C]) call(changes bool, do func() error) error {
	switch s.rand.Fault(changes) {
	case Lost:
		return errors.Join(do(), errLost)
	case Broken:
		return errBroken
	case Throttled:
		return &driver.RateLimitedError{RetryAfter: s.rand.seconds(20), Err: errOften}
	default:
		return do()
	}
}

// answers are all answers of the cloud, whether they arrived or not.
type answers struct {
	calls map[string]int
	// seen are the instances there are, by the UID of their machine.
	seen map[types.UID]sighting
	// replacements are those that were seen since the last check.
	replacements []replacement
}

// sighting is an instance that was seen.
type sighting struct {
	instance driver.Instance
	// settled is true once it was returned by Create, or seen in any state but Stopped and Stopping: it is never replaced.
	settled bool
}

// id identifies the instance itself, and not what else its machine may have.
func (s sighting) id() driver.Identity {
	id := s.instance.Identity
	id.ProviderID = s.instance.ProviderID
	return id
}

// replacement is another instance than before of the same machine.
type replacement struct {
	before sighting
	now    driver.Instance
}

func (r replacement) String() string {
	return fmt.Sprintf("machine %q has the instances %q and %q", r.now.Identity.Name, r.before.instance.ProviderID, r.now.ProviderID)
}

func newAnswers() *answers {
	return &answers{calls: map[string]int{}, seen: map[types.UID]sighting{}}
}

func (l *answers) count(verb string) { l.calls[verb]++ }

func (l *answers) see(instance driver.Instance, err error) {
	uid := instance.Identity.UID
	if err != nil || uid == "" || instance.State == driver.Terminated {
		return
	}
	if instance.ProviderID == "" && instance.State == driver.Stopping { // what was beside an instance that is gone
		return
	}
	known, ok := l.seen[uid]
	same := ok && known.instance.ProviderID == instance.ProviderID
	if ok && !same {
		l.replacements = append(l.replacements, replacement{known, instance})
	}
	stopped := instance.State == driver.Stopped || instance.State == driver.Stopping
	l.seen[uid] = sighting{instance, !stopped || same && known.settled}
}

// settle notes that the instance of a machine, if one was seen, is what Create returned.
func (l *answers) settle(uid types.UID) {
	if known, ok := l.seen[uid]; ok {
		known.settled = true
		l.seen[uid] = known
	}
}

func (l *answers) drop(uid types.UID) { delete(l.seen, uid) }

// steppingClock is a clock that does not advance between two steps.
type steppingClock struct{ now time.Time }

func (l *steppingClock) time() time.Time { return l.now }
