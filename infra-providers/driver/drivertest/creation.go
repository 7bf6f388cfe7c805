// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
)

func createAndRead[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	created := create(t, env, id)
	if created.ProviderID == "" || created.ID == "" {
		t.Fatalf("instance has no ProviderID or ID: %+v", created)
	}
	if path := created.ProviderID[strings.LastIndex(created.ProviderID, "/")+1:]; path == "" {
		t.Errorf("provider ID %q has an empty last segment", created.ProviderID)
	}
	if created.State != driver.Pending && created.State != driver.Running {
		t.Errorf("a new instance is %s", created.State)
	}
	if created.Created.IsZero() {
		t.Error("instance has no creation time")
	}
	want := id
	want.ProviderID = created.ProviderID
	if diff := cmp.Diff(want, created.Identity); diff != "" {
		t.Errorf("identity from the tags (-want +got):\n%s", diff)
	}
	for at, id := range map[string]driver.Identity{"UID": id, "UID and provider ID": want} {
		got, err := env.Driver.Get(t.Context(), id)
		if err != nil {
			t.Fatalf("reading by %s: %v", at, err)
		}
		if diff := same(created, got); diff != "" {
			t.Errorf("reading by %s (-created +read):\n%s", at, diff)
		}
	}
	if diff := same(created, wantOne(t, env, id)); diff != "" {
		t.Errorf("listing (-created +listed):\n%s", diff)
	}
}

func createRepeatedly[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	first := create(t, env, id)
	if env.Reconnect != nil {
		env.Driver = env.Reconnect()
	}
	for range 3 {
		if diff := same(first, create(t, env, id)); diff != "" {
			t.Errorf("another instance (-first +again):\n%s", diff)
		}
	}
	wantOne(t, env, id)
}

func createConcurrently[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	var callers sync.WaitGroup
	for range 8 {
		caller := env.Driver
		if env.Reconnect != nil {
			caller = env.Reconnect()
		}
		// A race may cost a caller an error, never an instance.
		callers.Go(func() { _, _ = caller.Create(t.Context(), request(env, id)) })
	}
	callers.Wait()
	create(t, env, id)
	wantOne(t, env, id)
}

func createLost[C any](t *testing.T, env Environment[C]) {
	if env.Lose == nil {
		t.Skip("this cloud does not lose answers")
	}
	id := identity(1)
	env.Lose()
	if _, err := env.Driver.Create(t.Context(), request(env, id)); driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
		t.Fatalf("a lost answer was taken for %v", err)
	}
	if env.Reconnect != nil {
		env.Driver = env.Reconnect()
	}
	create(t, env, id)
	wantOne(t, env, id)
}

func createInvalid[C any](t *testing.T, env Environment[C]) {
	invalid := map[string]C{}
	maps.Copy(invalid, env.NoImage)
	maps.Copy(invalid, env.Invalid)
	for what, config := range invalid {
		req := request(env, identity(1))
		req.Config = config
		if _, err := Create(t, env.Driver, req); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", what, err)
		}
	}
	if err := env.Driver.Delete(t.Context(), identity(1)); err != nil {
		t.Errorf("deleting what was never created: %v", err)
	}
	wantGone(t, env, identity(1))
	wantNothing(t, env)
}

// createTooLong: the limit of a cloud for user data does not change, so an error about it must not be one that is tried again.
func createTooLong[C any](t *testing.T, env Environment[C]) {
	req := request(env, identity(1))
	req.UserData = make([]byte, 2<<20) // more than any cloud accepts, and noise cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(req.UserData)
	if _, err := Create(t, env.Driver, req); err == nil {
		t.Log("this cloud has no limit")
	} else if !driver.IsNeverValid(err) {
		t.Errorf("got %v, want an InvalidConfigurationError that is final", err)
	}
	if err := env.Driver.Delete(t.Context(), identity(1)); err != nil {
		t.Errorf("deleting: %v", err)
	}
	wantGone(t, env, identity(1))
	wantNothing(t, env)
}

func createInterrupted[C any](t *testing.T, env Environment[C]) {
	if env.Interrupt == nil {
		t.Skip("nothing can be half created in this cloud")
	}
	id := identity(1)
	env.Interrupt()
	if _, err := Create(t, env.Driver, request(env, id)); err == nil {
		t.Fatal("the interrupted creation succeeded")
	}
	if len(env.Leftovers()) == 0 {
		t.Fatal("the interruption left nothing behind, so this proves nothing")
	}
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantGone(t, env, id)
	wantNothing(t, env)
}

func createResumed[C any](t *testing.T, env Environment[C]) {
	if env.Interrupt == nil {
		t.Skip("nothing can be half created in this cloud")
	}
	id := identity(1)
	env.Interrupt()
	if _, err := Create(t, env.Driver, request(env, id)); err == nil {
		t.Fatal("the interrupted creation succeeded")
	}
	created := create(t, env, id)
	id.ProviderID = created.ProviderID
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantGone(t, env, id)
	wantNothing(t, env)
}

// createOther requests another configuration after the cloud refused the first for good, which is all that
// an ordered fallback may rely on.
func createOther[C any](t *testing.T, env Environment[C]) {
	if env.Other == nil || env.Refuse[InsufficientCapacity] == nil && env.Refuse[QuotaExceeded] == nil {
		t.Skip("this cloud has no choice to offer")
	}
	for n, refusal := range []Refusal{InsufficientCapacity, QuotaExceeded} {
		refuse, ok := env.Refuse[refusal]
		if !ok {
			continue
		}
		id := identity(n)
		refuse()
		if _, err := Create(t, env.Driver, request(env, id)); !driver.IsInsufficientCapacity(err) && !driver.IsQuotaExceeded(err) {
			t.Fatalf("creating while %s: got %v", refusal, err)
		}
		other := env
		other.Config = *env.Other
		created := create(t, other, id)
		if diff := same(created, create(t, other, id)); diff != "" {
			t.Errorf("another instance (-first +again):\n%s", diff)
		}
		if diff := same(created, wantOne(t, env, id)); diff != "" {
			t.Errorf("listing (-created +listed):\n%s", diff)
		}
		if err := env.Driver.Delete(t.Context(), id); err != nil {
			t.Fatalf("deleting: %v", err)
		}
		wantGone(t, env, id)
		wantNothing(t, env)
	}
}

// adopt finds an instance after a restore that lost its UID, in the installation that it was created by and in no other.
func adopt[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	created := create(t, env, id)
	lost := driver.Identity{Name: id.Name, Owner: id.Owner, ProviderID: created.ProviderID}
	elsewhere := lost
	elsewhere.Owner.UID = uid(2, 7)
	if _, err := env.Driver.Get(t.Context(), elsewhere); !driver.IsNotOwned(err) {
		t.Errorf("reading by provider ID from another installation: got %v, want a NotOwnedError", err)
	}
	found, err := env.Driver.Get(t.Context(), lost)
	if err != nil {
		t.Fatalf("reading by provider ID: %v", err)
	}
	if found.Identity.UID != id.UID {
		t.Errorf("got UID %q from the tags, want %q", found.Identity.UID, id.UID)
	}
	if err := env.Driver.Delete(t.Context(), lost); err != nil {
		t.Fatalf("deleting by provider ID: %v", err)
	}
	wantGone(t, env, lost)
	wantNothing(t, env)
}
