// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
)

// otherMachine returns a machine of the same name as identity(1), whose instance is in the same account.
func otherMachine(n int, namespace, cluster string) driver.Identity {
	id := identity(1)
	id.UID, id.Owner = uid(3, n), driver.Owner{UID: uid(2, n), Namespace: namespace, Name: cluster}
	return id
}

// otherMachines are machines whose instances must not be touched, by where they are.
var otherMachines = map[string]driver.Identity{
	"in another namespace":             otherMachine(1, "elsewhere", "home"),
	"in another Cluster":               otherMachine(2, "team", "away"),
	"of another management cluster":    otherMachine(3, "team", "home"),
	"in another namespace and Cluster": otherMachine(4, "elsewhere", "away"),
}

// otherMachineRules returns the rules about the instances of other machines in the account.
func otherMachineRules[C any]() map[string]func(*testing.T, Environment[C]) {
	rules := map[string]func(*testing.T, Environment[C]){}
	for where, other := range otherMachines {
		rules["touches nothing of a machine "+where] = func(t *testing.T, env Environment[C]) { testOtherInstance(t, env, other) }
		rules["touches nothing that is half created for a machine "+where] = func(t *testing.T, env Environment[C]) { testOtherHalfCreated(t, env, other) }
	}
	return rules
}

// testOtherInstance takes a machine through its lifecycle beside the instance of another machine, and calls every method
// for that instance with every identity that is not its own.
func testOtherInstance[C any](t *testing.T, env Environment[C], other driver.Identity) {
	created := create(t, env, other)
	other.ProviderID = created.ProviderID
	wantRunning(t, env, other)
	before := everything(t, env)
	runLifecycle(t, env, before)
	for name, id := range forgedIdentities(other) {
		wantRefused(t, env, name, id)
	}
	wantUnchanged(t, env, before, "forged requests")
	if diff := same(created, wantRunning(t, env, other)); diff != "" {
		t.Errorf("the other's instance was touched (-before +after):\n%s", diff)
	}
	if err := env.Driver.Delete(t.Context(), other); err != nil {
		t.Fatalf("deleting the other's instance: %v", err)
	}
	wantGone(t, env, other)
	wantNothing(t, env)
}

// testOtherHalfCreated has disks, ports, addresses and volumes of the other in the account, and no instance.
func testOtherHalfCreated[C any](t *testing.T, env Environment[C], other driver.Identity) {
	if env.Interrupt == nil {
		t.Skip("nothing can be half created in this cloud")
	}
	env.Interrupt()
	if _, err := Create(t, env.Driver, request(env, other)); err == nil {
		t.Fatal("the interrupted creation succeeded")
	}
	before := everything(t, env)
	if len(before.Things) == 0 {
		t.Fatal("the interruption left nothing behind, so this proves nothing")
	}
	for name, id := range forgedIdentities(other) {
		if id.UID != other.UID {
			continue // it would name an instance, and there is none
		}
		for verb, err := range callsWith(t, env, id) { // refused, or nothing is there under this name
			if err == nil && verb != "deleting" {
				t.Errorf("%s by %s: want an error", verb, name)
			}
		}
	}
	wantUnchanged(t, env, before, "forged requests")
	runLifecycle(t, env, before)
	if err := env.Driver.Delete(t.Context(), other); err != nil {
		t.Fatalf("deleting what is half created: %v", err)
	}
	wantGone(t, env, other)
	wantNothing(t, env)
}

// runLifecycle takes identity(1) through its lifecycle and fails unless everything is as before at its end. Where its name
// is taken, it waits for that until it is deleted.
func runLifecycle[C any](t *testing.T, env Environment[C], before contents) {
	t.Helper()
	id := identity(1)
	if _, err := env.Driver.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Fatalf("reading what was never created: got %v, want a NotFoundError", err)
	}
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting what was never created: %v", err)
	}
	wantUnchanged(t, env, before, "deleting what was never created")
	if created, err := createAndWait(t, env, id); err == nil {
		id.ProviderID = created.ProviderID
		if diff := same(created, wantOne(t, env, id)); diff != "" {
			t.Errorf("listing (-created +listed):\n%s", diff)
		}
	} else if !env.UniqueNames || driver.IsInvalidConfiguration(err) || driver.IsNotFound(err) {
		t.Fatalf("creating a machine of the same name: %v", err)
	}
	wantKept(t, before, everything(t, env))
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantGone(t, env, id)
	wantUnchanged(t, env, before, "the life of a machine of the same name")
}

// createAndWait creates an instance and reads it until it runs, or the cloud refuses after all.
func createAndWait[C any](t *testing.T, env Environment[C], id driver.Identity) (found driver.Instance, err error) {
	t.Helper()
	found, err = Create(t, env.Driver, request(env, id))
	for deadline := time.Now().Add(waitTimeout); err == nil && found.State != driver.Running; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the instance is still %s", found.State)
		}
		if err = proceed(t, env, id, found); err == nil {
			found, err = env.Driver.Get(t.Context(), id)
		}
	}
	return found, err
}

// forgedIdentities are identities with which identity(1) must not reach the instance of another machine: what a tenant may
// write into an object of its own namespace, and what is left of an identity after a restore.
func forgedIdentities(other driver.Identity) map[string]driver.Identity {
	mine := identity(1)
	lost, nameless, ownerless := mine, other, other
	lost.UID, lost.ProviderID = "", other.ProviderID
	nameless.Name = ""
	ownerless.Owner = driver.Owner{}
	otherAccount := mine
	otherAccount.ProviderID = other.ProviderID
	forged := map[string]driver.Identity{
		"its provider ID":                       otherAccount,
		"its provider ID and no UID":            lost,
		"its provider ID alone":                 {ProviderID: other.ProviderID},
		"its UID and provider ID without names": {UID: other.UID, ProviderID: other.ProviderID},
		"its UID without names":                 {UID: other.UID},
		"its UID without the machine's name":    nameless,
		"its UID without an owner":              ownerless,
	}
	if !mine.Owner.Owns(other.Owner) { // a Cluster that moved keeps its names and the UIDs of its machines
		byUID := mine
		byUID.UID = other.UID
		forged["its UID"] = byUID
		byUID.ProviderID = other.ProviderID
		forged["its UID and provider ID"] = byUID
	}
	return forged
}

// wantRefused fails unless every method refuses an instance with an identity that is not its own.
func wantRefused[C any](t *testing.T, env Environment[C], name string, id driver.Identity) {
	t.Helper()
	for verb, err := range callsWith(t, env, id) {
		if !driver.IsNotOwned(err) {
			t.Errorf("%s by %s: got %v, want a NotOwnedError", verb, name, err)
		}
	}
}

// callsWith are the errors of every method that is about one instance.
func callsWith[C any](t *testing.T, env Environment[C], id driver.Identity) map[string]error {
	t.Helper()
	answers := map[string]error{"deleting": env.Driver.Delete(t.Context(), id)}
	_, answers["reading"] = env.Driver.Get(t.Context(), id)
	if tagger, ok := env.Driver.(driver.Tagger); ok {
		answers["tagging"] = tagger.Tag(t.Context(), id)
	}
	if provisioner, ok := env.Driver.(driver.Provisioner); ok {
		_, answers["provisioning"] = provisioner.Provision(t.Context(), id)
	}
	if restarter, ok := env.Driver.(driver.Restarter); ok {
		answers["restarting"] = restarter.Restart(t.Context(), id)
	}
	if reader, ok := env.Driver.(driver.ConsoleReader); ok {
		_, answers["reading the console"] = reader.Console(t.Context(), id)
	}
	if id.UID != "" && id.ProviderID == "" && id.Name != "" && id.Owner.Name != "" {
		_, answers["creating"] = env.Driver.Create(t.Context(), request(env, id))
	}
	return answers
}

// untagged removes tags from an instance and everything beside it: all of them, and each that identifies the owner.
func untagged[C any](t *testing.T, env Environment[C]) {
	if env.Untag == nil {
		t.Skip("tags cannot be changed in this cloud")
	}
	off := map[string][]string{"all": slices.Sorted(maps.Keys(driver.Identity{}.Tags()))}
	for _, key := range []string{driver.TagMachineUID, driver.TagMachine, driver.TagClusterNamespace, driver.TagCluster} {
		off[key] = []string{key}
	}
	for n, what := range slices.Sorted(maps.Keys(off)) {
		id := identity(n)
		id.ProviderID = create(t, env, id).ProviderID
		there := env.Untag(wantRunning(t, env, id), off[what]...)
		if env.Reconnect != nil { // the process that created it may have a record of it
			env.Driver = env.Reconnect()
		}
		for verb, err := range callsWith(t, env, id) {
			if !driver.IsNotOwned(err) || !driver.IsUntagged(err) {
				t.Errorf("%s what lacks tags (%s): got %v, want a NotOwnedError that reports so", verb, what, err)
			}
		}
		byUID := id
		byUID.ProviderID = ""
		if err := env.Driver.Delete(t.Context(), byUID); err != nil && !driver.IsNotOwned(err) {
			t.Errorf("deleting by UID what lacks tags (%s): %v", what, err)
		}
		wantNotListed(t, env, id, what)
		if !there() {
			t.Errorf("what lacks tags (%s) was touched", what)
		}
	}
}

// wantNotListed fails if a list shows an instance that lacks tags as one of an owner.
func wantNotListed[C any](t *testing.T, env Environment[C], id driver.Identity, what string) {
	t.Helper()
	for _, owner := range []driver.Owner{id.Owner, {}} {
		found, err := all(t.Context(), env.Driver, owner)
		if err != nil {
			t.Fatalf("listing: %v", err)
		}
		for _, instance := range found {
			if instance.ProviderID == id.ProviderID && instance.Identity.Tagged() {
				t.Errorf("what lacks tags (%s) is listed as %+v", what, instance.Identity)
			}
		}
	}
}

// accountID: the account of a machine is the same for every process, and is read from the cloud.
func accountID[C any](t *testing.T, env Environment[C]) {
	id := func(from driver.Driver[C]) (string, error) {
		t.Helper()
		identifier, ok := from.(driver.AccountIdentifier)
		if !ok {
			t.Fatal("the driver is no AccountIdentifier")
		}
		return identifier.AccountID(t.Context())
	}
	want, err := id(env.Driver)
	if err != nil || want == "" {
		t.Fatalf("got account %q and %v", want, err)
	}
	create(t, env, identity(1))
	if env.Reconnect != nil {
		env.Driver = env.Reconnect()
	}
	if refuse, ok := env.Refuse[Unauthorized]; ok {
		refuse()
		if got, err := id(env.Driver); !driver.IsUnauthorized(err) && got != want {
			t.Errorf("while the credentials are refused: got account %q and %v, want an UnauthorizedError", got, err)
		}
		_, _ = env.Driver.Get(t.Context(), identity(1)) // is refused where the account is known without a call
	}
	for range 2 {
		if got, err := id(env.Driver); err != nil || got != want {
			t.Errorf("second call: got account %q and %v, want %q", got, err, want)
		}
	}
	wantOne(t, env, identity(1))
	if found, err := all(t.Context(), env.Driver, driver.Owner{}); err != nil || len(found) != 1 {
		t.Errorf("the list of everything has %d instances and %v, want 1", len(found), err)
	}
}

// contents are what is in an account.
type contents struct {
	// Instances and Attached are by provider ID, and by kind and ID.
	Instances map[string]driver.Instance
	Attached  map[string]driver.AttachedObject
	// Things are what exists by Environment.Leftovers.
	Things []string
}

func everything[C any](t *testing.T, env Environment[C]) contents {
	t.Helper()
	found, err := all(t.Context(), env.Driver, driver.Owner{})
	if err != nil {
		t.Fatalf("listing everything: %v", err)
	}
	now := contents{Instances: map[string]driver.Instance{}, Attached: map[string]driver.AttachedObject{}, Things: leftovers(env)}
	for _, instance := range found {
		if instance.State != driver.Terminated {
			now.Instances[instance.ProviderID] = stableParts(instance)
		}
	}
	if remainder, ok := env.Driver.(driver.AttachedObjectLister); ok {
		for left, err := range remainder.AttachedObjects(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatalf("listing what is beside instances: %v", err)
			}
			left.Created = left.Created.UTC()
			now.Attached[fmt.Sprintf("%s %s", left.Kind, left.ID)] = left
		}
	}
	return now
}

func wantUnchanged[C any](t *testing.T, env Environment[C], before contents, by string) {
	t.Helper()
	if diff := cmp.Diff(before, everything(t, env)); diff != "" {
		t.Errorf("%s changed what is in the account (-before +after):\n%s", by, diff)
	}
}

// wantKept fails unless everything that was there is there still.
func wantKept(t *testing.T, before, after contents) {
	t.Helper()
	maps.DeleteFunc(after.Instances, func(id string, _ driver.Instance) bool { _, was := before.Instances[id]; return !was })
	maps.DeleteFunc(after.Attached, func(id string, _ driver.AttachedObject) bool { _, was := before.Attached[id]; return !was })
	after.Things = slices.DeleteFunc(after.Things, func(thing string) bool { return !slices.Contains(before.Things, thing) })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("creating a machine changed another's (-before +after):\n%s", diff)
	}
}
