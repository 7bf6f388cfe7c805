// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inventory"
	"drover.io/infra-providers/internal/machinestatus"
)

const infoRead = "GET /api/vsphere/v1/info.json"

// TestAddressesAreAwaited: a virtual machine that runs is read again until it shows the addresses that were reserved for it, also
// in a list, and then no more.
func TestAddressesAreAwaited(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{AddressDelay: 3})
	created := create(t, w)
	d := w.connect(t)
	for range 2 {
		found, err := d.Get(t.Context(), created.Identity)
		if err != nil || found.State != driver.Running || len(found.Addresses) != 0 || found.PollAfter == 0 {
			t.Fatalf("got %+v and %v, want one that is read again", found, err)
		}
	}
	for listed, err := range d.List(t.Context(), identity.Owner) {
		if err != nil || len(listed.Addresses) != 1 || listed.PollAfter != 0 {
			t.Errorf("got %+v and %v, want the address", listed, err)
		}
	}
}

// TestAddressesThatNeverAppear are not awaited for ever.
func TestAddressesThatNeverAppear(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{AddressDelay: 100})
	created := create(t, w)
	w.clock.Advance(2 * time.Hour)
	if found, err := w.connect(t).Get(t.Context(), created.Identity); err != nil || found.PollAfter != 0 {
		t.Errorf("got %+v and %v, want no more polling", found, err)
	}
}

// TestOthersAreNotRead: those of other management clusters cost a list no calls.
func TestOthersAreNotRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	create(t, w)
	w.journal.Drop(identity)
	before := w.cloud.Calls()[infoRead]
	count := 0
	for listed, err := range w.connect(t).List(t.Context(), driver.Owner{}) {
		if err != nil || listed.Identity.UID != identity.UID {
			t.Errorf("got %+v and %v", listed, err)
		}
		count++
	}
	if reads := w.cloud.Calls()[infoRead] - before; reads != 0 || count != 1 {
		t.Errorf("%d reads for %d virtual machines, want none for one", reads, count)
	}
}

// TestListsNoticeWhatStops: each of many lists shows what was read of a virtual machine that runs, and none does for longer than
// ten minutes.
func TestListsNoticeWhatStops(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	create(t, w)
	d := w.connect(t)
	list := func() (state driver.State) {
		for listed, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
			state = listed.State
		}
		return state
	}
	before := w.cloud.Calls()[infoRead]
	if state := list(); state != driver.Running {
		t.Fatalf("it is %s", state)
	}
	w.cloud.Stop()
	for range 10 {
		w.clock.Advance(time.Minute)
		list()
	}
	if state := list(); state != driver.Stopped {
		t.Errorf("it is %s for the lists ten minutes after it stopped", state)
	}
	if reads := w.cloud.Calls()[infoRead] - before; reads > 3 {
		t.Errorf("%d reads", reads)
	}
}

// TestListsSurviveOneThatCannotBeRead: the others are still read.
func TestListsSurviveOneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	create(t, w)
	d := w.connect(t)
	list := func() (states []driver.State, failed error) {
		for listed, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				return nil, err
			}
			states = append(states, listed.State)
		}
		return states, nil
	}
	if states, err := list(); err != nil || !slices.Equal(states, []driver.State{driver.Running}) {
		t.Fatalf("got %v, %v", states, err)
	}
	w.clock.Advance(time.Hour / 4)
	w.cloud.Fail(anexiafake.Fault{Operation: infoRead, Status: http.StatusInternalServerError})
	if states, err := list(); err != nil || !slices.Equal(states, []driver.State{driver.Running}) {
		t.Errorf("while it cannot be read: got %v, %v", states, err)
	}
	w.cloud.Stop()
	if states, err := list(); err != nil || !slices.Equal(states, []driver.State{driver.Stopped}) {
		t.Errorf("after that: got %v, %v", states, err)
	}
}

// TestListsLeaveOutWhatCannotBeRead and what a new process knows nothing of: the others are still listed, and only that one has an
// error. Where many cannot be read, the list fails.
func TestListsLeaveOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	var all []driver.Instance
	for n := range 5 {
		id := identity
		id.UID, id.Name = types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-00000000001%d", n)), fmt.Sprintf("worker-%d", n)
		all = append(all, createAs(t, w, id))
	}
	w.cloud.BreakReads(all[0].ID)
	shared := inventory.New[anexia.InstanceConfig](w.connect(t), inventory.Options{
		Interval: time.Minute, Unsettled: time.Minute, Now: w.clock.Now, Changed: func(driver.Identity) {},
	})
	if err := shared.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.cloud.Stop()
	w.clock.Advance(time.Hour / 4)
	if seen, err := shared.Get(t.Context(), all[1].Identity); err != nil || seen.State != driver.Stopped {
		t.Errorf("one that stopped: got %+v and %v", seen, err)
	}
	if seen, err := shared.Get(t.Context(), all[0].Identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("the one that cannot be read: got %+v and %v, want the failure", seen, err)
	}
	w.cloud.BreakReads(all[1].ID, all[2].ID, all[3].ID)
	var failed error
	for _, err := range w.connect(t).List(t.Context(), driver.Owner{}) {
		failed = err
	}
	if failed == nil {
		t.Error("a list of which nearly nothing can be read did not fail")
	}
}

// TestListsGetFurther has more virtual machines than a list reads again: the next one begins with the rest, also where the first ones
// are old again by then.
func TestListsGetFurther(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	for n := range 105 {
		id := identity
		id.UID, id.Name = types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-000000000%03d", n)), fmt.Sprintf("worker-%d", n)
		createAs(t, w, id)
	}
	d := w.connect(t)
	for n, want := range []int{105, 0, 100, 5, 0, 100, 5, 100} {
		if n == 2 || n > 4 {
			w.clock.Advance(time.Hour / 4)
		}
		before, listed := w.cloud.Calls()[infoRead], 0
		for found, err := range d.List(t.Context(), driver.Owner{}) {
			if listed++; err != nil || found.State != driver.Running {
				t.Fatalf("got %s, error %v", found.State, err)
			}
		}
		if reads := w.cloud.Calls()[infoRead] - before; reads != want || listed != 105 {
			t.Errorf("list %d shows %d and reads %d, want %d", n, listed, reads, want)
		}
	}
}

// TestProvisioningThatDoesNotEnd is awaited for an hour. Then a virtual machine with the name counts; without one nothing is
// concluded and nothing requested, and the machine may be released.
func TestProvisioningThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"creating", "deleting"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, anexiafake.Options{})
			request := newRequest(identity, newConfig(t, func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].NICType = "vmxnet3" }))
			verbs := map[string]func() error{
				"creating": func() error { _, err := w.connect(t).Create(t.Context(), request); return err },
				"reading":  func() error { _, err := w.connect(t).Get(t.Context(), identity); return err },
				"deleting": func() error { return w.connect(t).Delete(t.Context(), identity) },
			}
			if err := verbs["creating"](); !driver.IsUnfinished(err) {
				t.Fatal(err)
			}
			w.clock.Advance(59 * time.Minute)
			for verb, call := range verbs {
				if err := call(); !driver.IsUnfinished(err) {
					t.Errorf("%s within an hour: got %v, want an UnfinishedError", verb, err)
				}
			}
			w.clock.Advance(2 * time.Minute)
			for verb, call := range verbs {
				if err := call(); err == nil || driver.IsNotFound(err) || !machinestatus.MayRelease(err) {
					t.Errorf("%s after an hour: got %v, want an error after which the machine may be released", verb, err)
				}
			}
			left := w.cloud.Add(anexiafake.Customer + "-" + hostInJournal(t, w))
			if err := verbs[last](); err != nil {
				t.Errorf("%s once there is one: %v", last, err)
			}
			if seen, err := w.connect(t).Get(t.Context(), identity); last == "creating" && (err != nil || seen.ID != left) {
				t.Errorf("got %+v and %v, want the one that there is", seen, err)
			}
			wantRequests(t, w, provisioning, 1)
			wantRequests(t, w, removal, map[string]int{"deleting": 1}[last])
		})
	}
}

// hostInJournal returns the host name of the machine.
func hostInJournal(t *testing.T, w env) string {
	t.Helper()
	entry, err := w.journal.Read(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	record := struct{ Host string }{}
	if err := json.Unmarshal([]byte(entry.Data), &record); err != nil {
		t.Fatal(err)
	}
	return record.Host
}

// TestFailureThatNamesNothing: a failed task may name a virtual machine that it did not leave. Its reason is returned.
func TestFailureThatNamesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.FailTask(anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}, Named: true})
	var told error
	for range 20 {
		if _, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil || !driver.IsUnfinished(err) {
			told = err
			break
		}
		w.clock.Advance(time.Minute)
	}
	if told == nil || !strings.Contains(told.Error(), "no resources") {
		t.Errorf("got %v, want the reason of the failure", told)
	}
}

// TestFailureThatLeavesWhatCannotBeRead is recorded with its reason all the same, reported and removed.
func TestFailureThatLeavesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.FailTask(anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}, Leaves: true, Named: true, Broken: true})
	id := create(t, w).Identity
	wantRequests(t, w, provisioning, 1)
	d := w.connect(t)
	seen := map[string]driver.Instance{}
	var err error
	if seen["creating"], err = d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err != nil {
		t.Error(err)
	}
	if seen["reading"], err = d.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	for listed, err := range d.List(t.Context(), driver.Owner{}) {
		if seen["listing"] = listed; err != nil {
			t.Error(err)
		}
	}
	for verb, found := range seen {
		if found.State != driver.Stopped || found.ProviderID != id.ProviderID || !strings.Contains(found.Message, "no resources") {
			t.Errorf("%s: got %+v, want a stopped one with the reason", verb, found)
		}
	}
	remove(t, w, id)
	wantRequests(t, w, removal, 1)
}

// TestRemovalOfWhatCannotBeRead: it is not missing, and the list of all shows whose it is.
func TestRemovalOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"with its provider ID": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, anexiafake.Options{TaskReads: 3})
			created := create(t, w)
			w.cloud.BreakReads(created.ID)
			id := identity
			if known {
				id.ProviderID = created.ProviderID
			}
			d := w.connect(t)
			if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
				t.Errorf("got %v, want the failure", err)
			}
			if err := d.Delete(t.Context(), id); err == nil {
				t.Error("one failure may pass")
			}
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if seen, err := d.Get(t.Context(), id); err != nil || seen.State != driver.Stopping {
				t.Errorf("while it is removed: got %+v and %v", seen, err)
			}
			remove(t, w, id)
			wantRequests(t, w, removal, 1)
		})
	}
}

// TestWhatIsNeitherReadNorListed is not gone, and nothing is removed that is not known to be the machine's own.
func TestWhatIsNeitherReadNorListed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{ListDelay: 1000})
	id := create(t, w).Identity
	w.cloud.Fail(anexiafake.Fault{Operation: infoRead, Status: http.StatusInternalServerError})
	if err := w.connect(t).Delete(t.Context(), id); err == nil || driver.IsNotFound(err) {
		t.Errorf("got %v, want the failure", err)
	}
	wantRequests(t, w, removal, 0)
}

// TestErrorsOfSuccess: an answer with the status of a success may have errors and no task. Their text is in the error.
func TestErrorsOfSuccess(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.AnswerErrors("no resources")
	_, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err == nil || driver.IsUnfinished(err) || !strings.Contains(err.Error(), "no resources") {
		t.Errorf("got %v, want the text of the cloud", err)
	}
}

// TestPoweredOnIsNoFailure: the cloud's SDK takes this error for a success, too.
func TestPoweredOnIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 1})
	w.cloud.FailTask(anexiafake.Failure{
		Status: "-1", Errors: []string{"The attempted operation cannot be performed in the current state (Powered on)."}, Leaves: true, Complete: true,
	})
	created := create(t, w)
	if created.State != driver.Running {
		t.Errorf("got %+v, want one that runs", created)
	}
	wantRequests(t, w, provisioning, 1)
	remove(t, w, created.Identity)
}
