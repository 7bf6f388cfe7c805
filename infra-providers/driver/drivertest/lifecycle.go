// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover.io/infra-providers/driver"
)

func missing[C any](t *testing.T, env Environment[C]) {
	created := create(t, env, identity(1))
	never := identity(2)
	if _, err := env.Driver.Get(t.Context(), never); !driver.IsNotFound(err) {
		t.Errorf("reading by UID: got %v, want a NotFoundError", err)
	}
	id := identity(1)
	id.ProviderID = created.ProviderID
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantGone(t, env, id)
	if err := env.Driver.Delete(t.Context(), never); err != nil {
		t.Errorf("deleting what was never created: %v", err)
	}
}

func foreign[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	created := create(t, env, id)
	otherName, otherUID, otherCluster := id, id, id
	otherName.Name = "other-machine"
	otherUID.UID, otherUID.ProviderID = uid(1, 9), created.ProviderID
	otherCluster.Owner.Name, otherCluster.ProviderID = "away", created.ProviderID
	others := map[string]driver.Identity{"another UID": otherUID, "another cluster": otherCluster}
	if !env.NamesIdentify {
		others["another name"] = otherName
	}
	for who, id := range others {
		if _, err := env.Driver.Get(t.Context(), id); !driver.IsNotOwned(err) {
			t.Errorf("reading under %s: got %v, want a NotOwnedError", who, err)
		}
		if err := env.Driver.Delete(t.Context(), id); !driver.IsNotOwned(err) {
			t.Errorf("deleting under %s: got %v, want a NotOwnedError", who, err)
		}
	}
	if env.NamesIdentify {
		createUnderOtherName(t, env, otherName)
	} else if _, err := env.Driver.Create(t.Context(), request(env, otherName)); !driver.IsNotOwned(err) {
		t.Errorf("creating under another name: got %v, want a NotOwnedError", err)
	}
	if diff := same(created, wantOne(t, env, id)); diff != "" {
		t.Errorf("the instance was touched (-before +after):\n%s", diff)
	}
}

// createUnderOtherName creates and deletes the instance of a machine whose UID the instance of one of another name has.
func createUnderOtherName[C any](t *testing.T, env Environment[C], id driver.Identity) {
	t.Helper()
	if _, err := env.Driver.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("reading under another name: got %v, want a NotFoundError", err)
	}
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting under another name: %v", err)
	}
	create(t, env, id)
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting what was created under another name: %v", err)
	}
	wantGone(t, env, id)
}

func deleteTwice[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	for range 3 {
		if err := env.Driver.Delete(t.Context(), id); err != nil {
			t.Fatalf("deleting: %v", err)
		}
	}
	wantGone(t, env, id)
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
	wantNothing(t, env)
}

func deleteLost[C any](t *testing.T, env Environment[C]) {
	if env.Lose == nil {
		t.Skip("this cloud does not lose answers")
	}
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	env.Lose()
	_ = env.Driver.Delete(t.Context(), id)
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting again: %v", err)
	}
	wantGone(t, env, id)
	wantNothing(t, env)
}

// deleteSparing: the deletion of a lost Node, whose volumes were never detached, must not delete their data.
func deleteSparing[C any](t *testing.T, env Environment[C]) {
	if env.Attach == nil {
		t.Skip("others cannot attach disks in this cloud")
	}
	deleteWithForeignDisk(t, env, env.Attach)
}

// deleteSparingAttachedCopies: tags alone do not prove that an attached disk was created with the instance either.
func deleteSparingAttachedCopies[C any](t *testing.T, env Environment[C]) {
	if env.AttachCopy == nil {
		t.Skip("tags of disks decide nothing in this cloud, or others cannot attach them")
	}
	deleteWithForeignDisk(t, env, env.AttachCopy)
}

func deleteWithForeignDisk[C any](t *testing.T, env Environment[C], attach func(created driver.Instance) func() bool) {
	t.Helper()
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	there := attach(wantRunning(t, env, id))
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantGone(t, env, id)
	if !there() {
		t.Error("the disk of another owner was deleted")
	}
	wantNothing(t, env)
}

// deleteSparingCopies: tags alone do not prove that a disk was created for a machine. It is listed as a copy, with the instance and
// without, and stays when the machine is deleted again, as the collector of orphans does.
func deleteSparingCopies[C any](t *testing.T, env Environment[C]) {
	if env.CopyTags == nil {
		t.Skip("tags of disks decide nothing in this cloud")
	}
	id := identity(1)
	created := create(t, env, id)
	there := env.CopyTags(created)
	wantOneCopy(t, env)
	known := id
	known.ProviderID = created.ProviderID
	for _, id := range []driver.Identity{known, id, known} {
		if err := env.Driver.Delete(t.Context(), id); err != nil {
			t.Fatalf("deleting: %v", err)
		}
		wantGone(t, env, id)
	}
	wantOneCopy(t, env)
	if !there() {
		t.Error("the disk of another owner was deleted")
	}
	wantNothing(t, env)
}

func wantOneCopy[C any](t *testing.T, env Environment[C]) {
	t.Helper()
	copies := 0
	for found, err := range env.Driver.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatalf("listing what is beside instances: %v", err)
		}
		if found.Copy {
			copies++
		}
	}
	if copies != 1 {
		t.Errorf("%d copies are listed, want 1", copies)
	}
}

// listSize is the default of Environment.ListSize: several pages of any driver with a small page size in tests.
const listSize = 60

func list[C any](t *testing.T, env Environment[C]) {
	many := listSize
	if env.ListSize > 0 {
		many = env.ListSize
	}
	other := identity(many)
	other.Owner = driver.Owner{UID: uid(2, 1), Namespace: "team", Name: "away"}
	want := map[string]bool{}
	for n := range many {
		want[create(t, env, identity(n)).ProviderID] = true
	}
	foreign := create(t, env, other)
	found, err := all(t.Context(), env.Driver, identity(0).Owner)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	for _, instance := range found {
		if !want[instance.ProviderID] {
			t.Errorf("%s is listed twice or does not belong to the owner", instance.ProviderID)
		}
		delete(want, instance.ProviderID)
	}
	if len(want) > 0 {
		t.Errorf("%d instances are missing from the list", len(want))
	}
	everything, err := all(t.Context(), env.Driver, driver.Owner{})
	if err != nil {
		t.Fatalf("listing everything: %v", err)
	}
	if len(everything) != many+1 || !contains(everything, foreign.ProviderID) {
		t.Errorf("the list of everything has %d instances, want %d", len(everything), many+1)
	}
}

// listLikeGet compares an instance in a list with what Get returns, once neither is behind. A caller writes either into the same
// status, so a list without the addresses would remove them.
func listLikeGet[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	wantRunning(t, env, id)
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(time.Millisecond) {
		read, err := env.Driver.Get(t.Context(), id)
		if err != nil {
			t.Fatalf("reading: %v", err)
		}
		listed, err := all(t.Context(), env.Driver, id.Owner)
		if err != nil || len(listed) != 1 {
			t.Fatalf("got %d instances and %v, want 1", len(listed), err)
		}
		diff := cmp.Diff(shown(read), shown(listed[0]), cmpopts.EquateEmpty())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the list differs from Get (-Get +List):\n%s", diff)
		}
	}
}

// shown is what the status of a machine shows of an instance.
func shown(i driver.Instance) driver.Instance {
	return driver.Instance{ID: i.ID, ProviderID: i.ProviderID, FailureDomain: i.FailureDomain, State: i.State, Addresses: i.Addresses, Reported: i.Reported}
}

func listBreak[C any](t *testing.T, env Environment[C]) {
	for n := range 5 {
		create(t, env, identity(n))
	}
	for _, err := range env.Driver.List(t.Context(), identity(0).Owner) {
		if err != nil {
			t.Fatalf("listing: %v", err)
		}
		break
	}
	found, err := all(t.Context(), env.Driver, identity(0).Owner)
	if err != nil || len(found) != 5 {
		t.Errorf("got %d instances and %v, want 5", len(found), err)
	}
}

func hidden[C any](t *testing.T, env Environment[C]) {
	if env.Hide == nil {
		t.Skip("lists of this cloud are never behind")
	}
	env.Hide()
	id := identity(1)
	created := create(t, env, id)
	found, err := all(t.Context(), env.Driver, id.Owner)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	if contains(found, created.ProviderID) {
		t.Fatal("the instance was not hidden, so this proves nothing")
	}
	id.ProviderID = created.ProviderID
	if _, err := env.Driver.Get(t.Context(), id); err != nil {
		t.Errorf("reading: %v", err)
	}
	create(t, env, identity(1))
	if err := env.Driver.Delete(t.Context(), identity(1)); err != nil {
		t.Errorf("deleting: %v", err)
	}
	wantGone(t, env, id)
	wantNothing(t, env)
}

func cancelled[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for verb, call := range verbs(ended, env, id) {
		if err := call(); err == nil || driver.IsNotFound(err) {
			t.Errorf("%s: got %v, want the context's error", verb, err)
		}
	}
	wantOne(t, env, id)
}

// refusalKinds are the kinds of error of what may happen to any call.
var refusalKinds = map[Refusal]func(error) bool{
	Unauthorized: driver.IsUnauthorized,
	RateLimited:  driver.IsRateLimited,
	ServerError:  func(err error) bool { return err != nil && !known(err) },
}

func refusals[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	for refusal, is := range refusalKinds {
		refuse, ok := env.Refuse[refusal]
		if !ok {
			continue
		}
		for verb := range verbs(t.Context(), env, id) {
			refuse()
			if err := verbs(t.Context(), env, id)[verb](); !is(err) {
				t.Errorf("%s while %s: got %v", verb, refusal, err)
			}
		}
	}
	wantOne(t, env, id)
}

func shortages[C any](t *testing.T, env Environment[C]) {
	kinds := map[Refusal]func(error) bool{QuotaExceeded: driver.IsQuotaExceeded, InsufficientCapacity: driver.IsInsufficientCapacity}
	for n, refusal := range []Refusal{QuotaExceeded, InsufficientCapacity} {
		refuse, ok := env.Refuse[refusal]
		if !ok {
			continue
		}
		id := identity(n) // a machine that was deleted is never created again, so its refusals may be forgotten
		refuse()
		if _, err := Create(t, env.Driver, request(env, id)); !kinds[refusal](err) {
			t.Errorf("creating while %s: got %v", refusal, err)
		}
		if err := env.Driver.Delete(t.Context(), id); err != nil {
			t.Errorf("deleting after %s: %v", refusal, err)
		}
		wantGone(t, env, id)
	}
	wantNothing(t, env)
}

// verbs are the calls of a driver, on an instance that exists except for the creation.
func verbs[C any](ctx context.Context, env Environment[C], id driver.Identity) map[string]func() error {
	return map[string]func() error{
		"create": func() error { _, err := env.Driver.Create(ctx, request(env, identity(2))); return err },
		"get":    func() error { _, err := env.Driver.Get(ctx, id); return err },
		"delete": func() error { return env.Driver.Delete(ctx, id) },
		"list":   func() error { _, err := all(ctx, env.Driver, id.Owner); return err },
	}
}

// known reports whether an error has one of the kinds, so that it would not count as transient.
func known(err error) bool {
	for _, is := range []func(error) bool{
		driver.IsNotFound, driver.IsNotOwned, driver.IsNotRunning, driver.IsInvalidConfiguration, driver.IsUnauthorized,
		driver.IsQuotaExceeded, driver.IsInsufficientCapacity, driver.IsRateLimited,
	} {
		if is(err) {
			return true
		}
	}
	return false
}
