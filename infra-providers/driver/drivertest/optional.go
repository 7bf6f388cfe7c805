// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
)

// retag writes the UID of a Cluster that moved into the tags.
func retag[C any](t *testing.T, env Environment[C]) {
	tagger, ok := env.Driver.(driver.Tagger)
	if !ok {
		t.Skip("this cloud does not change tags")
	}
	id := identity(1)
	moved := id
	moved.Owner.UID = uid(2, 7)
	if err := tagger.Tag(t.Context(), moved); !driver.IsNotFound(err) {
		t.Errorf("tagging what does not exist: got %v, want a NotFoundError", err)
	}
	moved.ProviderID = create(t, env, id).ProviderID
	for range 2 {
		if err := tagger.Tag(t.Context(), moved); err != nil {
			t.Fatalf("tagging: %v", err)
		}
	}
	wantOne(t, env, moved)
	if found, err := all(t.Context(), env.Driver, id.Owner); err != nil || len(found) > 0 {
		t.Errorf("the owner before still has %d instances and %v", len(found), err)
	}
	if remainder, ok := env.Driver.(driver.AttachedObjectLister); ok {
		for left, err := range remainder.AttachedObjects(t.Context(), id.Owner) {
			t.Errorf("the owner before still has %s %q and %v", left.Kind, left.ID, err)
		}
	}
	otherName, otherCluster := moved, moved
	otherName.Name, otherCluster.Owner.Name = "other-machine", "away"
	for who, id := range map[string]driver.Identity{"another name": otherName, "another cluster": otherCluster} {
		if err := tagger.Tag(t.Context(), id); !driver.IsNotOwned(err) {
			t.Errorf("tagging under %s: got %v, want a NotOwnedError", who, err)
		}
	}
	wantOne(t, env, moved)
}

// restart restarts an instance, and one that does not exist or is not this machine's.
func restart[C any](t *testing.T, env Environment[C]) {
	restarter := restarterOf(t, env)
	id := identity(1)
	if err := restarter.Restart(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("restarting what does not exist: got %v, want a NotFoundError", err)
	}
	created := create(t, env, id)
	wantRunning(t, env, id)
	left := leftovers(env)
	byProvider := driver.Identity{Name: id.Name, Owner: id.Owner, ProviderID: created.ProviderID}
	for by, id := range map[string]driver.Identity{"UID": id, "provider ID alone": byProvider} {
		wantRestarted(t, env, restarter, id, by)
	}
	if env.Restarts != nil && env.Restarts() != 2 {
		t.Errorf("restarted %d times, want 2", env.Restarts())
	}
	otherName, otherUID, otherCluster := id, id, id
	otherName.Name = "other-machine"
	if env.NamesIdentify { // there is none of this name
		otherName.ProviderID = created.ProviderID
	}
	otherUID.UID, otherUID.ProviderID = uid(1, 9), created.ProviderID
	otherCluster.Owner.Name, otherCluster.ProviderID = "away", created.ProviderID
	for who, id := range map[string]driver.Identity{"another name": otherName, "another UID": otherUID, "another cluster": otherCluster} {
		if err := restarter.Restart(t.Context(), id); !driver.IsNotOwned(err) {
			t.Errorf("restarting under %s: got %v, want a NotOwnedError", who, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := restarter.Restart(ended, id); err == nil || driver.IsNotFound(err) {
		t.Errorf("restarting after the context ended: got %v, want the context's error", err)
	}
	if env.Restarts != nil && env.Restarts() != 2 {
		t.Errorf("restarted %d times after refusals, want 2", env.Restarts())
	}
	wantRunning(t, env, id)
	if diff := same(created, wantOne(t, env, id)); diff != "" {
		t.Errorf("the restart changed the instance (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(left, leftovers(env)); diff != "" {
		t.Errorf("the restart changed what exists (-before +after):\n%s", diff)
	}
}

// readConsole reads what an instance writes, from its end.
func readConsole[C any](t *testing.T, env Environment[C]) {
	reader, ok := env.Driver.(driver.ConsoleReader)
	if !ok {
		t.Skip("this cloud has no consoles that can be read")
	}
	id := identity(1)
	if _, err := reader.Console(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("reading the console of what does not exist: got %v, want a NotFoundError", err)
	}
	created := create(t, env, id)
	if _, err := reader.Console(t.Context(), id); err != nil {
		t.Errorf("reading the console of what may not have started: %v", err)
	}
	wantRunning(t, env, id)
	if env.Write == nil {
		t.Skip("the guests of this cloud write nothing")
	}
	env.Write(created, strings.Repeat("another line\n", driver.MaxConsole/8)+"the last line\n")
	byProvider := driver.Identity{Name: id.Name, Owner: id.Owner, ProviderID: created.ProviderID}
	for by, id := range map[string]driver.Identity{"UID": id, "provider ID alone": byProvider} {
		output, err := reader.Console(t.Context(), id)
		if err != nil || len(output) > driver.MaxConsole || !strings.Contains(string(output), "another line\nthe last line\n") {
			t.Errorf("by %s: %d bytes that end with %q, and %v", by, len(output), output[max(0, len(output)-40):], err)
		}
	}
}

func restartStopped[C any](t *testing.T, env Environment[C]) {
	restarter := restarterOf(t, env)
	if env.Stop == nil {
		t.Skip("instances of this cloud cannot be stopped")
	}
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	wantRunning(t, env, id)
	env.Stop()
	if err := restarter.Restart(t.Context(), id); !driver.IsNotRunning(err) {
		t.Errorf("restarting what is stopped: got %v, want a NotRunningError", err)
	}
	if found, err := env.Driver.Get(t.Context(), id); err != nil || found.State != driver.Stopped {
		t.Errorf("the instance is %q and %v, want it to be %s still", found.State, err, driver.Stopped)
	}
	if env.Restarts != nil && env.Restarts() != 0 {
		t.Errorf("restarted %d times, want never", env.Restarts())
	}
}

func restarterOf[C any](t *testing.T, env Environment[C]) driver.Restarter {
	t.Helper()
	restarter, ok := env.Driver.(driver.Restarter)
	if !ok {
		t.Skip("this cloud does not restart instances")
	}
	return restarter
}

// wantRestarted restarts until the cloud accepts it: it may be busy with the restart before.
func wantRestarted[C any](t *testing.T, env Environment[C], restarter driver.Restarter, id driver.Identity, by string) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		err := restarter.Restart(t.Context(), id)
		if err == nil {
			return
		}
		if known(err) && !driver.IsNotRunning(err) || time.Now().After(deadline) {
			t.Fatalf("restarting by %s: %v", by, err)
		}
		wantRunning(t, env, id)
	}
}
