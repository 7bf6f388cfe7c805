// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// errTouched means that something of another tenant was deleted or changed.
var errTouched = errors.New("touched what belongs to another tenant")

// startTimeout bounds the wait for the instances of others to run, before the first fault.
const startTimeout = 4 * time.Minute

// others are the instances of other tenants in the same account. They have the names of machines of the test, where the
// cloud permits equal names, and are not reconciled.
type others[C any] struct {
	made []driver.Instance
	// things are what exists of them by Hooks.Leftovers.
	things []string
}

// owners are a Cluster of the same name in another namespace, another Cluster in the same one, and the same Cluster by
// name of another management cluster.
func (s *run[M, C]) owners() []driver.Owner {
	return []driver.Owner{
		{UID: "0e000000-0000-4000-8000-000000000001", Namespace: s.home.Namespace + "-of-others", Name: s.home.Name},
		{UID: "0e000000-0000-4000-8000-000000000002", Namespace: s.home.Namespace, Name: s.home.Name + "-of-others"},
		{UID: "0e000000-0000-4000-8000-000000000003", Namespace: s.home.Namespace, Name: s.home.Name},
	}
}

// createOthers creates the instances of the other tenants, before the first fault.
func (s *run[M, C]) createOthers(ctx context.Context) (err error) {
	connected, err := s.connect(ctx)
	if err != nil {
		return err
	}
	config, err := s.env.Cloud.Config(s.env.Machine(), "")
	if err != nil {
		return err
	}
	s.rand.rest(func() {
		for n, owner := range s.owners() {
			id := driver.Identity{UID: types.UID(fmt.Sprintf("0f000000-0000-4000-8000-%012d", n)), Name: fmt.Sprint("m", n), Owner: owner}
			if s.env.Hooks.UniqueNames {
				id.Name = fmt.Sprint("other-", n)
			}
			made, failure := s.createAndWait(ctx, connected, driver.CreateRequest[C]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"})
			if failure != nil {
				err = fmt.Errorf("making the instance of another tenant: %w", failure)
				return
			}
			s.others.made = append(s.others.made, made)
		}
		s.others.things = s.env.Hooks.Leftovers()
	})
	return err
}

// connect returns a driver as the reconciler has one, but for its faults.
func (s *run[M, C]) connect(ctx context.Context) (driver.Driver[C], error) {
	var credentials driver.Credentials
	if s.env.Secret != nil {
		credentials = s.env.Secret.Data
	}
	return s.env.Cloud.Connect(ctx, s.env.Cloud.Account(s.env.Machine()), credentials)
}

// createAndWait creates an instance and waits until it runs.
func (s *run[M, C]) createAndWait(ctx context.Context, connected driver.Driver[C], req driver.CreateRequest[C]) (found driver.Instance, err error) {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if found, err = connected.Create(ctx, req); err == nil {
			found, err = connected.Get(ctx, found.Identity)
		}
		if provisioner, able := connected.(driver.Provisioner); able && err == nil && found.StepDue {
			found, err = provisioner.Provision(ctx, found.Identity)
		}
		if err == nil && found.State == driver.Running && !found.StepDue {
			return found, nil
		}
		if s.env.Pass != nil {
			s.env.Pass(10 * time.Second)
			s.clock.now = s.clock.now.Add(10 * time.Second)
		}
	}
	return found, fmt.Errorf("the instance is %q: %w", found.State, errors.Join(err, context.DeadlineExceeded))
}

// createForged makes the first machines claim the instances of the others, as a tenant could who writes such objects, with
// the other's name and, where that differs from a machine that moved, the other's UID. They must not reach the instance,
// and must be deletable.
func (s *run[M, C]) createForged(machine M, n int) bool {
	if n >= len(s.others.made) {
		return false
	}
	other, uid := s.others.made[n].Identity, types.UID(fmt.Sprintf("0d000000-0000-4000-8000-%012d", n))
	if owner := (driver.Owner{Namespace: s.home.Namespace, Name: s.home.Name}); !owner.Owns(other.Owner) {
		uid = other.UID
	}
	machine.SetName(other.Name)
	machine.SetProviderID(other.ProviderID)
	machine.SetAnnotations(map[string]string{infrav1.IdentityAnnotation: string(uid)})
	return true
}

// verify fails unless everything of the other tenants is as it was.
func (s *run[M, C]) verify(ctx context.Context) (err error) {
	s.rand.rest(func() {
		var gone []string
		left := s.env.Hooks.Leftovers()
		for _, thing := range s.others.things {
			if !slices.Contains(left, thing) {
				gone = append(gone, thing)
			}
		}
		if len(gone) > 0 {
			err = fmt.Errorf("%w: %s gone", errTouched, strings.Join(gone, ", "))
			return
		}
		for _, was := range s.others.made {
			if err = s.same(ctx, was); err != nil {
				return
			}
		}
	})
	return err
}

// same fails unless an instance runs with its tags as it did.
func (s *run[M, C]) same(ctx context.Context, was driver.Instance) error {
	var is driver.Instance
	var err error
	for range 1 + 2*len(s.hooks) { // a hook may still wait for its call
		if is, err = s.env.Hooks.Driver.Get(ctx, was.Identity); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: reading instance %q: %w", errTouched, was.ProviderID, err)
	}
	if is.State != driver.Running || is.Identity != was.Identity || !is.Created.Equal(was.Created) {
		return fmt.Errorf("%w: instance %q was %+v and is %+v", errTouched, was.ProviderID, was, is)
	}
	return nil
}
