// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// fixture is an inventory over a fake cloud, with a clock that the test moves.
type fixture struct {
	*testing.T
	*Inventory[fake.Config]
	cloud   *fake.Cloud
	fault   func(fake.Call) fake.Fault
	now     time.Time
	changed []string
}

func newFixture(t *testing.T, options fake.Options) *fixture {
	t.Helper()
	b := &fixture{T: t, now: time.Unix(1_000_000, 0)}
	options.Now = func() time.Time { return b.now }
	options.Faults = func(call fake.Call) fake.Fault {
		if b.fault == nil {
			return fake.Fault{}
		}
		return b.fault(call)
	}
	b.cloud = fake.New(options)
	b.Inventory = New[fake.Config](b.cloud, Options{
		Interval:  time.Minute,
		Unsettled: 5 * time.Second,
		Now:       func() time.Time { return b.now },
		Changed:   func(id driver.Identity) { b.changed = append(b.changed, id.Name) },
	})
	return b
}

// make creates n instances without the inventory.
func (b *fixture) make(n int) {
	b.Helper()
	for i := range n {
		if _, err := b.cloud.Create(b.Context(), request(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *fixture) get(n int) (driver.Instance, error) { return b.Get(b.Context(), request(n).Identity) }

func (b *fixture) want(n int, state driver.State) {
	b.Helper()
	instance, err := b.get(n)
	if err != nil || instance.State != state {
		b.Errorf("instance %d: got %q and %v, want %q", n, instance.State, err, state)
	}
}

func (b *fixture) wantCalls(operation string, want int) {
	b.Helper()
	if got := b.cloud.Snapshot().Calls[operation]; got != want {
		b.Errorf("%d calls of %s, want %d", got, operation, want)
	}
}

func (b *fixture) pass(d time.Duration) { b.now = b.now.Add(d) }

func request(n int) driver.CreateRequest[fake.Config] {
	return driver.CreateRequest[fake.Config]{
		Identity: driver.Identity{UID: types.UID(fmt.Sprint("uid-", n)), Name: fmt.Sprint("m", n), Owner: driver.Owner{UID: "c", Namespace: "n", Name: "c"}},
		Config:   fake.Config{InstanceType: "small", Zone: "z"},
	}
}

func TestOneListForAllMachines(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(100)
	for range 3 {
		for n := range 100 {
			b.want(n, driver.Running)
		}
	}
	b.wantCalls("get", 0)
	b.wantCalls("list", 50) // pages of two, once
	b.pass(time.Minute)
	for n := range 100 {
		b.want(n, driver.Running)
	}
	b.wantCalls("get", 0)
	b.wantCalls("list", 100)
}

func TestLifecycleCostsOneDirectRead(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	if _, err := b.Create(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	b.want(1, driver.Running)
	b.wantCalls("get", 0)
	if err := b.Delete(t.Context(), request(1).Identity); err != nil {
		t.Fatal(err)
	}
	if _, err := b.get(1); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	b.wantCalls("get", 1)
}

func TestMissingInAListIsReadDirectly(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{ListLag: 3})
	b.make(1)
	b.want(0, driver.Running) // the list does not show it: read directly
	b.wantCalls("get", 1)
	for range 3 {
		b.pass(time.Minute)
		b.want(0, driver.Running)
	}
}

// editedLists has lists whose instances are not as they are read directly.
type editedLists struct {
	driver.Driver[fake.Config]
	edit func(*driver.Instance)
}

func (e editedLists) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for listed, err := range e.Driver.List(ctx, owner) {
			e.edit(&listed)
			if !yield(listed, err) {
				return
			}
		}
	}
}

// TestRemovalsCostNoReads: the lists show them.
func TestRemovalsCostNoReads(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{DeleteReads: 1000})
	b.make(100)
	for n := range 100 {
		if err := b.cloud.Delete(t.Context(), request(n).Identity); err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		for n := range 100 {
			b.want(n, driver.Stopping)
		}
		b.pass(5 * time.Second)
	}
	b.wantCalls("get", 0)
}

// TestFailedRemovalIsRead within an interval, although the lists show that it goes on.
func TestFailedRemovalIsRead(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.options.RemembersRemovals = true
	// The driver believes that each instance is being removed, until it reads one.
	v := New[fake.Config](editedLists{b.cloud, func(listed *driver.Instance) { listed.State = driver.Stopping }}, b.options)
	v.keep(driver.Instance{
		ID: "x", ProviderID: request(0).Identity.ProviderID, Identity: request(0).Identity, State: driver.Stopping,
	})
	for range 15 {
		b.pass(5 * time.Second)
		found, err := v.Get(t.Context(), request(0).Identity)
		if err != nil {
			t.Fatal(err)
		}
		if found.State == driver.Running {
			return
		}
	}
	t.Errorf("it is never read: %d reads", b.cloud.Snapshot().Calls["get"])
}

// TestLostUIDIsReadDirectly: a direct read finds what the list does not know as the machine's.
func TestLostUIDIsReadDirectly(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	// The lists name no owner, as those of a cloud without tags do once a restore lost the UID of a machine.
	b.Driver = editedLists{b.cloud, func(listed *driver.Instance) {
		listed.Identity.Name, listed.Identity.Owner = "?", driver.Owner{Namespace: "?", Name: "?"}
	}}
	id := request(0).Identity
	found, err := b.cloud.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	id.ProviderID = found.ProviderID
	if _, err := b.Get(t.Context(), id); !driver.IsNotOwned(err) {
		t.Errorf("with the UID: got %v, want a NotOwnedError", err)
	}
	id.UID = ""
	if found, err := b.Get(t.Context(), id); err != nil || found.Identity.UID != request(0).Identity.UID {
		t.Errorf("got %+v and %v", found, err)
	}
	id.Name = "another"
	if _, err := b.Get(t.Context(), id); !driver.IsNotOwned(err) {
		t.Errorf("another machine: got %v, want a NotOwnedError", err)
	}
}

// byName is a driver that looks for a machine without a provider ID by its name: one of another name and the same UID is none.
type byName struct{ driver.Driver[fake.Config] }

func (b byName) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := b.Driver.Get(ctx, id)
	if id.ProviderID == "" && driver.IsNotOwned(err) {
		return driver.Instance{}, &driver.NotFoundError{What: "instance " + id.Name}
	}
	return found, err
}

func (b byName) Delete(ctx context.Context, id driver.Identity) error {
	err := b.Driver.Delete(ctx, id)
	if id.ProviderID == "" && driver.IsNotOwned(err) {
		return nil
	}
	return err
}

// TestMachineWithTheUIDOfAnother: it is a copy of another machine, with its annotation, and has no instance.
func TestMachineWithTheUIDOfAnother(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{DeleteReads: 1000})
	b.Driver = byName{b.cloud}
	b.make(2)
	b.want(0, driver.Running)
	if err := b.Delete(t.Context(), request(1).Identity); err != nil {
		t.Fatal(err)
	}
	b.want(1, driver.Stopping) // removals take a while, as the inventory knows now
	other := request(0).Identity
	other.Name = "another"
	if err := b.Delete(t.Context(), other); err != nil {
		t.Errorf("deleting the copy: %v", err)
	}
	if _, err := b.Get(t.Context(), other); !driver.IsNotFound(err) {
		t.Errorf("the copy has an instance: %v", err)
	}
	b.want(0, driver.Running)
}

func TestListThatBeganBeforeAWrite(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	b.pass(time.Minute)
	// While the list is under way, another instance is created through the inventory.
	made := false
	b.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "list" && !made {
			made = true
			if _, err := b.Create(t.Context(), request(7)); err != nil {
				t.Error(err)
			}
			b.cloud.Set("uid-7", func(i *driver.Instance) { i.State = driver.Stopped })
		}
		return fake.Fault{}
	}
	b.want(0, driver.Running)
	b.want(7, driver.Running) // what the list shows is older than the write
	b.pass(time.Minute)
	b.want(7, driver.Stopped)
}

// TestListDoesNotDropWhatWasCreatedMeanwhile: the list began before the creation, so that it does not show the instance.
func TestListDoesNotDropWhatWasCreatedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(4)
	b.want(0, driver.Running)
	b.pass(time.Minute)
	pages := 0
	b.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "list" {
			if pages++; pages == 2 {
				if _, err := b.Create(t.Context(), request(7)); err != nil {
					t.Error(err)
				}
			}
		}
		return fake.Fault{}
	}
	b.want(0, driver.Running)
	b.want(7, driver.Running)
	b.wantCalls("get", 0)
	if len(b.changed) > 0 {
		t.Errorf("changed %q, want none", b.changed)
	}
}

func TestChangesByOthers(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(3)
	b.want(0, driver.Running)
	b.cloud.Destroy("uid-1")
	b.cloud.Set("uid-2", func(i *driver.Instance) { i.State = driver.Stopped })
	b.pass(time.Minute)
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(b.changed)
	if !slices.Equal(b.changed, []string{"m1", "m2"}) {
		t.Errorf("changed %q, want m1 and m2", b.changed)
	}
	if _, err := b.get(1); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	b.want(2, driver.Stopped)
}

func TestFailedListHasNoEffect(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(4)
	b.want(0, driver.Running)
	b.pass(time.Minute)
	pages := 0
	b.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "list" {
			if pages++; pages == 2 {
				return fake.Fault{Err: errors.New("gateway timeout")}
			}
		}
		return fake.Fault{}
	}
	for n := range 4 {
		b.want(n, driver.Running)
	}
	b.wantCalls("get", 0)
	b.wantCalls("list", 4) // two pages at first, two of the broken list, and then the cloud is spared
	if len(b.changed) > 0 {
		t.Errorf("changed %q", b.changed)
	}
}

// TestInstanceIsReadWhileListsFail: one server that the cloud cannot list must not keep all others from starting and from
// being removed.
func TestInstanceIsReadWhileListsFail(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{BootReads: 1, DeleteReads: 1})
	b.make(1)
	_, _ = b.get(0)
	b.pass(time.Minute)
	b.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "list" {
			return fake.Fault{Err: errors.New("internal server error")}
		}
		return fake.Fault{}
	}
	if _, err := b.Create(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	b.want(1, driver.Pending)
	b.cloud.Set("uid-1", func(i *driver.Instance) { i.State = driver.Running })
	b.pass(time.Minute + time.Second)
	b.want(1, driver.Running)
	b.wantCalls("get", 1)
	for range 5 {
		b.pass(time.Minute)
		b.want(1, driver.Running)
	}
	b.wantCalls("get", 1) // a settled instance costs no call
}

// TestWhatCannotBeListedIsReadDirectly, each time, so that a machine of a datacenter that does not exist can be deleted.
func TestWhatCannotBeListedIsReadDirectly(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "list" {
			return fake.Fault{Err: &driver.InvalidConfigurationError{Field: "spec.datacenter", Err: errors.New("there is none of this name")}}
		}
		return fake.Fault{}
	}
	for range 3 {
		if _, err := b.get(0); !driver.IsNotFound(err) {
			t.Errorf("got %v, want a NotFoundError", err)
		}
		b.pass(time.Minute)
	}
}

func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	b.pass(time.Minute)
	b.fault = func(fake.Call) fake.Fault { return fake.Fault{Err: &driver.UnauthorizedError{Err: errors.New("no")}} }
	for range 2 {
		if _, err := b.get(0); !driver.IsUnauthorized(err) {
			t.Errorf("got %v, want an UnauthorizedError", err)
		}
	}
	b.fault = nil
	b.pass(time.Minute)
	b.want(0, driver.Running)
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	b.pass(time.Minute)
	b.fault = func(fake.Call) fake.Fault {
		return fake.Fault{Err: &driver.RateLimitedError{RetryAfter: 10 * time.Minute, Err: errors.New("slow down")}}
	}
	for range 5 {
		b.want(0, driver.Running)
		b.pass(time.Minute)
	}
	b.wantCalls("list", 2)
}

func TestUnsettledInterval(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{BootReads: 1})
	if _, err := b.Create(t.Context(), request(0)); err != nil {
		t.Fatal(err)
	}
	b.want(0, driver.Pending)
	b.cloud.Set("uid-0", func(i *driver.Instance) { i.State = driver.Running })
	b.want(0, driver.Pending)
	b.pass(5 * time.Second)
	b.want(0, driver.Running)
	b.wantCalls("get", 0)
}

// TestSlowDeletionsAreListed: after the first instance that takes a while to be removed, which costs a read, lists show the others.
func TestSlowDeletionsAreListed(t *testing.T) {
	t.Parallel()
	const many = 6
	b := newFixture(t, fake.Options{DeleteReads: 2, Page: 100})
	b.make(many)
	b.want(0, driver.Running)
	end := func(n int) {
		b.Helper()
		if err := b.Delete(t.Context(), request(n).Identity); err != nil {
			t.Fatal(err)
		}
	}
	end(0)
	b.want(0, driver.Stopping)
	b.wantCalls("get", 1)
	b.pass(5 * time.Second)
	b.wantGone(0)
	b.wantCalls("get", 2)

	b.pass(time.Minute)
	for n := 1; n < many; n++ {
		end(n)
		b.want(n, driver.Stopping)
	}
	b.wantCalls("get", 2)
	lists := b.cloud.Snapshot().Calls["list"]
	for range 2 {
		b.pass(5 * time.Second)
		for n := 1; n < many; n++ {
			_, _ = b.get(n)
		}
	}
	for n := 1; n < many; n++ {
		b.wantGone(n)
	}
	b.wantCalls("list", lists+2)
	b.wantCalls("get", 2+many-1+many-1) // each once when a list missed it, and once more by wantGone
}

// TestPendingDeletionStepBypassesInventory: it may have been the last one, and the caller repeats Delete while a step is due.
func TestPendingDeletionStepBypassesInventory(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{Steps: 2, DeleteReads: 1})
	b.make(2)
	for n := range 2 {
		b.cloud.Set(request(n).Identity.UID, func(i *driver.Instance) { i.State = driver.Running })
	}
	b.want(0, driver.Running)
	end := func(n, reads int) {
		t.Helper()
		if err := b.Delete(t.Context(), request(n).Identity); err != nil {
			t.Fatal(err)
		}
		b.want(n, driver.Stopping)
		b.wantCalls("get", reads)
	}
	end(0, 1) // from now on deletions are known to take a while
	end(1, 1)
	b.pass(5 * time.Second)
	if found, err := b.get(1); err != nil || !found.StepDue {
		t.Fatalf("got %+v and %v, want a step to be due", found, err)
	}
	if err := b.Delete(t.Context(), request(1).Identity); err != nil {
		t.Fatal(err)
	}
	if _, err := b.get(1); !driver.IsNotFound(err) {
		t.Errorf("after the last step: got %v, want a NotFoundError", err)
	}
	b.wantCalls("get", 2)
}

// TestDueStepIsAChange: the machine is reconciled as soon as a list shows it, and not at its next poll.
func TestDueStepIsAChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{Steps: 1})
	if _, err := b.Create(t.Context(), request(0)); err != nil {
		t.Fatal(err)
	}
	b.make(2) // the first list, which reports nothing
	b.want(1, driver.Pending)
	b.cloud.Set(request(1).Identity.UID, func(i *driver.Instance) { i.StepDue = true })
	b.changed = nil
	for range 2 {
		b.pass(time.Minute)
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(b.changed, []string{"m0"}) {
		t.Errorf("changed %q, want m0, whose step became due after its creation", b.changed)
	}
}

// TestEvictionIsAChange: a node that is drained waits for the machine, whose instance runs as before.
func TestEvictionIsAChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(2)
	b.want(0, driver.Running)
	for _, reason := range []string{"node a is drained", ""} {
		b.changed = nil
		b.cloud.Set("uid-1", func(i *driver.Instance) { i.Eviction = reason })
		for range 2 {
			b.pass(time.Minute)
			if err := b.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(b.changed, []string{"m1"}) {
			t.Errorf("with the eviction %q: changed %q, want m1", reason, b.changed)
		}
	}
}

// TestOtherTagsAreAChange: a machine whose instance has the tags of another one waits until they are put back.
func TestOtherTagsAreAChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	for _, name := range []string{"other", "m0"} {
		b.changed = nil
		b.cloud.Set("uid-0", func(i *driver.Instance) { i.Identity.Name = name })
		b.pass(time.Minute)
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(b.changed); !slices.Equal(b.changed, []string{"m0", "other"}) {
			t.Errorf("with the name %q: changed %q, want m0 and other", name, b.changed)
		}
	}
}

// TestUIDOfSeveralInstancesIsReadDirectly: the driver decides which one is the machine's own.
func TestUIDOfSeveralInstancesIsReadDirectly(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	found, err := b.get(0)
	if err != nil {
		t.Fatal(err)
	}
	b.wantCalls("get", 0)
	b.cloud.Copy(found.ProviderID)
	b.pass(time.Minute)
	b.want(0, driver.Running)
	b.wantCalls("get", 1)
	byProviderID := request(0).Identity
	byProviderID.ProviderID = found.ProviderID
	if got, err := b.Get(t.Context(), byProviderID); err != nil || got.ProviderID != found.ProviderID {
		t.Errorf("got %+v and %v, want %s", got, err, found.ProviderID)
	}
	b.wantCalls("get", 1)
}

// TestDeletionIsVerified by a read: a list may be behind, and a cloud may lose a deletion.
func TestDeletionIsVerified(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state driver.State
		// reads are how often it is read until that counts.
		reads int
	}{
		"it still runs":                   {driver.Running, 1},
		"it was stopped already":          {driver.Stopped, 1},
		"it is listed until it is reaped": {driver.Terminated, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, fake.Options{DeleteReads: 100})
			b.make(2)
			b.want(0, driver.Running)
			for n := range 2 {
				if err := b.Delete(t.Context(), request(n).Identity); err != nil {
					t.Fatal(err)
				}
				b.want(n, driver.Stopping)
			}
			b.pass(5 * time.Second)
			b.want(1, driver.Stopping)
			b.wantCalls("get", 1)
			b.cloud.Set("uid-1", func(i *driver.Instance) { i.State = test.state })
			b.want(1, driver.Stopping)
			b.pass(5 * time.Second)
			b.want(1, test.state)
			b.wantCalls("get", 1+test.reads)
		})
	}
}

// TestTerminatedInstanceIsReadAfterDelete, at once.
func TestTerminatedInstanceIsReadAfterDelete(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{DeleteReads: 100})
	b.make(2)
	b.want(0, driver.Running)
	end := func(n int, state driver.State) {
		b.Helper()
		if err := b.Delete(t.Context(), request(n).Identity); err != nil {
			t.Fatal(err)
		}
		b.cloud.Set(request(n).Identity.UID, func(i *driver.Instance) { i.State = state })
	}
	end(0, driver.Stopping)
	b.want(0, driver.Stopping)
	end(1, driver.Terminated)
	b.want(1, driver.Stopping)
	b.pass(5 * time.Second)
	b.want(1, driver.Terminated)
	end(1, driver.Terminated)
	b.want(1, driver.Terminated)
	b.wantCalls("get", 2)
}

func (b *fixture) wantGone(n int) {
	b.Helper()
	if instance, err := b.get(n); !driver.IsNotFound(err) {
		b.Errorf("instance %d: got %q and %v, want a NotFoundError", n, instance.State, err)
	}
}
