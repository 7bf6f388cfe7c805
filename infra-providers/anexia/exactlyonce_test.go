// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

const (
	provisioning = "POST /api/vsphere/v1/provisioning/vm.json"
	removal      = "DELETE /api/vsphere/v1/provisioning/vm.json"
	reservation  = "POST /api/ipam/v1/address/reserve/ip/count.json"
)

// create calls Create until it succeeds, as another process each time.
func create(t *testing.T, w env) driver.Instance {
	t.Helper()
	return createAs(t, w, identity)
}

func createAs(t *testing.T, w env, id driver.Identity) driver.Instance {
	t.Helper()
	var err error
	for range 50 {
		var created driver.Instance
		if created, err = w.connect(t).Create(t.Context(), newRequest(id, newConfig(t, unchanged))); err == nil {
			return created
		}
		w.clock.Advance(time.Minute)
	}
	t.Fatalf("creating: %v", err)
	return driver.Instance{}
}

// remove calls Delete and Get until the virtual machine is gone, as another process each time, and as the generic reconciler does:
// what is Stopping is only read again, until a step is due.
func remove(t *testing.T, w env, id driver.Identity) {
	t.Helper()
	var err error
	var seen driver.Instance
	for range 100 {
		if seen.State != driver.Stopping || seen.StepDue {
			err = w.connect(t).Delete(t.Context(), id)
		}
		if err == nil {
			if seen, err = w.connect(t).Get(t.Context(), id); driver.IsNotFound(err) {
				break
			}
		}
		w.clock.Advance(time.Minute)
		w.cloud.Pass()
	}
	if !driver.IsNotFound(err) {
		t.Fatalf("deleting: %v", err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

func wantRequests(t *testing.T, w env, operation string, want int) {
	t.Helper()
	if got := w.cloud.Calls()[operation]; got != want {
		t.Errorf("%d requests %s, want %d", got, operation, want)
	}
}

// TestProcessIsKilled at every write of the journal, before it and after it.
func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	for _, fault := range []drivertest.JournalFault{drivertest.NotWritten, drivertest.AnswerLost} {
		for n := range 6 {
			w := newEnv(t, anexiafake.Options{TaskReads: 1})
			faults := make([]drivertest.JournalFault, n)
			w.journal.Fail(append(faults, fault)...)
			var err error
			var created driver.Instance
			for range 200 {
				// Each process makes one call: its memory is gone.
				if created, err = w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
					break
				}
				w.clock.Advance(time.Minute)
				w.cloud.Pass()
			}
			if err != nil {
				t.Fatalf("%s, write %d: %v", fault, n, err)
			}
			if left := w.cloud.Leftovers(); len(left) != 1 {
				t.Errorf("%s, write %d: the cloud has %q, want one virtual machine", fault, n, left)
			}
			if got := w.cloud.Calls()[provisioning]; got != 1 {
				t.Errorf("%s, write %d: %d requests for a virtual machine, want 1", fault, n, got)
			}
			remove(t, w, created.Identity)
		}
	}
}

// TestProvisioningAnswerLost finds the virtual machine by its name.
func TestProvisioningAnswerLost(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 3, ListDelay: 4, InfoDelay: 1})
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning})
	d := w.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the answer was not lost")
	}
	for verb, call := range map[string]func() error{
		"creating": func() error {
			_, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
			return err
		},
		"deleting": func() error { return d.Delete(t.Context(), identity) },
		"reading":  func() error { _, err := d.Get(t.Context(), identity); return err },
	} {
		if err := call(); !driver.IsUnfinished(err) {
			t.Errorf("%s while the outcome is not known: got %v, want an UnfinishedError", verb, err)
		}
	}
	for range 4 {
		w.cloud.Pass()
	}
	created := create(t, w)
	wantRequests(t, w, provisioning, 1)
	remove(t, w, created.Identity)
}

// TestRequestThatNeverArrived is repeated once the time is over in which a virtual machine may appear, and not before.
func TestRequestThatNeverArrived(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning, Status: http.StatusBadGateway, Foreign: true})
	request := newRequest(identity, newConfig(t, unchanged))
	if _, err := w.connect(t).Create(t.Context(), request); err == nil || driver.IsUnfinished(err) {
		t.Fatalf("got %v, want the failure", err)
	}
	for range 59 {
		if _, err := w.connect(t).Create(t.Context(), request); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
		w.clock.Advance(time.Minute)
	}
	wantRequests(t, w, provisioning, 1)
	w.clock.Advance(2 * time.Minute)
	created := create(t, w)
	wantRequests(t, w, provisioning, 2)
	remove(t, w, created.Identity)
}

// TestTwoVirtualMachines are both removed, if one appeared after the time in which it may.
func TestTwoVirtualMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	id := create(t, w).Identity
	host, _ := w.cloud.Requests()[0]["hostname"].(string)
	w.cloud.Add(anexiafake.Customer + "-" + host)
	remove(t, w, id)
	wantRequests(t, w, removal, 2)
}

// TestRemovalIsAwaited: a virtual machine that is no longer shown is gone once the task that removes it is over.
func TestRemovalIsAwaited(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 3, HideRemoved: true})
	id := create(t, w).Identity
	if err := w.connect(t).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	stopping := 0
	for range 20 {
		seen, err := w.connect(t).Get(t.Context(), id)
		if driver.IsNotFound(err) {
			break
		}
		if err != nil || seen.State != driver.Stopping {
			t.Fatalf("got %+v, error %v", seen, err)
		}
		stopping++
	}
	if left := w.cloud.Leftovers(); len(left) > 0 || stopping == 0 {
		t.Errorf("%q is left after %d reads", left, stopping)
	}
}

// TestRefusedRemoval: the instance that stays has the Engine's reason, until a removal is accepted.
func TestRefusedRemoval(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 2})
	id := create(t, w).Identity
	d := w.connect(t)
	for _, refused := range []bool{true, false} {
		if refused {
			w.cloud.Fail(anexiafake.Fault{Operation: removal, Status: http.StatusConflict})
		}
		if err := d.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		seen, err := d.Get(t.Context(), id)
		if err != nil || strings.Contains(seen.Message, "409") != refused || (seen.State == driver.Stopping) == refused {
			t.Errorf("refused %t: got %+v and %v", refused, seen, err)
		}
	}
	remove(t, w, id)
}

// TestRefusalLeavesNothing: the Engine's own refusal is definite, so the next request follows at once, from any process.
func TestRefusalLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning, Status: http.StatusTooManyRequests})
	if _, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); !driver.IsRateLimited(err) {
		t.Fatalf("got %v, want a RateLimitedError", err)
	}
	_, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if !driver.IsUnfinished(err) {
		t.Errorf("got %v, want an UnfinishedError", err)
	}
	wantRequests(t, w, provisioning, 2)
	wantRequests(t, w, reservation, 1)
}

// TestFailedProvisioning: what it left is found, reported as stopped, and deleted; if it left nothing, it is repeated after a
// while.
func TestFailedProvisioning(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure anexiafake.Failure
		found   bool
	}{
		"leaves nothing":                      {anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}}, false},
		"was cancelled":                       {anexiafake.Failure{Status: "3"}, false},
		"leaves a virtual machine":            {anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}, Leaves: true}, true},
		"leaves one and names it":             {anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}, Leaves: true, Named: true}, true},
		"names one that it does not leave":    {anexiafake.Failure{Status: "-1", Errors: []string{"no resources"}, Named: true}, false},
		"has errors and a status of no known": {anexiafake.Failure{Status: "", Errors: []string{"no resources"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, anexiafake.Options{TaskReads: 1, ListDelay: 3})
			w.cloud.FailTask(test.failure)
			created := create(t, w)
			if !test.found {
				wantRequests(t, w, provisioning, 2)
				remove(t, w, created.Identity)
				return
			}
			wantRequests(t, w, provisioning, 1)
			found, err := w.connect(t).Get(t.Context(), created.Identity)
			if err != nil || found.State != driver.Stopped || !strings.Contains(found.Message, "no resources") {
				t.Errorf("got %+v and %v, want a stopped instance with the reason", found, err)
			}
			remove(t, w, created.Identity)
		})
	}
}

// TestDeleteDuringProvisioning waits for its end.
func TestDeleteDuringProvisioning(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 5})
	if _, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); !driver.IsUnfinished(err) {
		t.Fatal(err)
	}
	if err := w.connect(t).Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Errorf("got %v, want an UnfinishedError", err)
	}
	wantRequests(t, w, removal, 0)
	remove(t, w, identity)
	wantRequests(t, w, removal, 1)
}

// TestRestoreWithoutJournal finds the virtual machine by its name, whatever the search can do.
func TestRestoreWithoutJournal(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		w := newEnv(t, anexiafake.Options{WholeNames: whole})
		created := create(t, w)
		w.journal.Drop(identity)
		req := newRequest(identity, newConfig(t, unchanged))
		req.Since = time.Now() // as in a snapshot from before its first attempt
		if _, err := w.connect(t).Create(t.Context(), req); err != nil {
			t.Errorf("creating again: %v", err)
		}
		w.journal.Drop(identity)
		again := create(t, w)
		if again.ProviderID != created.ProviderID {
			t.Errorf("got %s, want %s", again.ProviderID, created.ProviderID)
		}
		wantRequests(t, w, provisioning, 1)
		w.journal.Drop(identity)
		remove(t, w, identity)
	}
}

// TestForgedJournal names the virtual machine of another machine, which stays.
func TestForgedJournal(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	other := create(t, w)
	mine := identity
	mine.UID, mine.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	_, err := w.connect(t).Create(t.Context(), newRequest(mine, newConfig(t, unchanged)))
	if !driver.IsUnfinished(err) {
		t.Fatal(err)
	}
	entry, err := w.journal.Read(t.Context(), mine)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(entry.Data, `"host"`, `"vm":"`+other.ID+`","host"`, 1)
	if _, err := w.journal.Write(t.Context(), mine, entry, forged); err != nil {
		t.Fatal(err)
	}
	if _, err := w.connect(t).Get(t.Context(), mine); !driver.IsNotOwned(err) {
		t.Errorf("reading: got %v, want a NotOwnedError", err)
	}
	if err := w.connect(t).Delete(t.Context(), mine); !driver.IsUnfinished(err) {
		t.Errorf("deleting: got %v, want an UnfinishedError while its own may appear", err)
	}
	wantRequests(t, w, removal, 0)
	w.cloud.Pass()
	w.clock.Advance(time.Minute)
	for range 2 {
		if err := w.connect(t).Delete(t.Context(), mine); err != nil {
			t.Errorf("deleting: %v", err)
		}
		w.cloud.Pass()
	}
	wantRequests(t, w, removal, 1)
	if left := w.cloud.Leftovers(); len(left) != 1 || !strings.Contains(left[0], other.ID) {
		t.Errorf("%q is left, want the other machine's", left)
	}
}

// TestJournalIsRemoved while a request is carried out: the process that sent it knows of it.
func TestJournalIsRemoved(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 5})
	d := w.connect(t)
	request := newRequest(identity, newConfig(t, unchanged))
	for range 3 {
		if _, err := d.Create(t.Context(), request); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
		w.journal.Drop(identity)
		if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
			t.Fatalf("deleting: got %v, want an UnfinishedError", err)
		}
	}
	remove(t, w, identity)
	wantRequests(t, w, provisioning, 1)
}

// TestCopiedJournal is that of another machine: nothing is concluded from it, and nothing is requested.
func TestCopiedJournal(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	create(t, w)
	copied, err := w.journal.Read(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	mine := identity
	mine.UID, mine.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	if _, err := w.journal.Write(t.Context(), mine, driver.Entry{}, copied.Data); err != nil {
		t.Fatal(err)
	}
	d := w.connect(t)
	for verb, call := range map[string]func() error{
		"creating": func() error { _, err := d.Create(t.Context(), newRequest(mine, newConfig(t, unchanged))); return err },
		"deleting": func() error { return d.Delete(t.Context(), mine) },
		"reading":  func() error { _, err := d.Get(t.Context(), mine); return err },
	} {
		if err := call(); err == nil || driver.IsNotFound(err) || driver.IsNotOwned(err) {
			t.Errorf("%s with the journal of another machine: got %v, want an error that passes", verb, err)
		}
	}
	wantRequests(t, w, provisioning, 1)
	wantRequests(t, w, removal, 0)
}

// TestReservations are used again while they last, and made again when they are over.
func TestReservations(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	request := newRequest(identity, newConfig(t, allFields))
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning, Status: http.StatusForbidden}, anexiafake.Fault{Operation: provisioning, Status: http.StatusForbidden})
	for range 2 {
		if _, err := w.connect(t).Create(t.Context(), request); !driver.IsUnauthorized(err) {
			t.Fatalf("got %v, want an UnauthorizedError", err)
		}
	}
	wantRequests(t, w, reservation, 2)
	if reserved := w.cloud.Reserved(); reserved != 2 {
		t.Errorf("%d addresses are reserved, want 2", reserved)
	}
	w.clock.Advance(25 * time.Minute)
	if _, err := w.connect(t).Create(t.Context(), request); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	wantRequests(t, w, reservation, 4)
	w.clock.Advance(time.Hour)
	if reserved := w.cloud.Reserved(); reserved != 0 {
		t.Errorf("%d addresses are still reserved", reserved)
	}
	remove(t, w, identity)
}

// TestTemplateIsReplaced by another build after it was listed: the request is refused, and the next one is for the new build.
func TestTemplateIsReplaced(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning, Status: http.StatusNotFound})
	d := w.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an error that passes", err)
	}
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); !driver.IsUnfinished(err) {
		t.Errorf("got %v, want an UnfinishedError", err)
	}
	wantRequests(t, w, provisioning, 2)
	wantRequests(t, w, "GET /api/vsphere/v1/provisioning/templates.json", 2)
	remove(t, w, identity)
}

// TestReservedAddressIsTaken by another client before the request: that is no mistake in the spec, and another one is reserved.
func TestReservedAddressIsTaken(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	request := newRequest(identity, newConfig(t, allFields))
	w.cloud.Fail(anexiafake.Fault{Operation: provisioning, Status: http.StatusForbidden})
	if _, err := w.connect(t).Create(t.Context(), request); !driver.IsUnauthorized(err) {
		t.Fatalf("got %v, want an UnauthorizedError", err)
	}
	w.cloud.TakeReserved()
	if _, err := w.connect(t).Create(t.Context(), request); !driver.IsInsufficientCapacity(err) {
		t.Errorf("got %v, want an InsufficientCapacityError", err)
	}
	if _, err := w.connect(t).Create(t.Context(), request); !driver.IsUnfinished(err) {
		t.Errorf("got %v, want an UnfinishedError", err)
	}
	wantRequests(t, w, reservation, 4)
	remove(t, w, identity)
}

// TestPrefixIsNotUsedUp by a machine whose addresses the Engine always refuses.
func TestPrefixIsNotUsedUp(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TakeAddresses: true})
	d := w.connect(t)
	for range 20 {
		if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, allFields))); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
	}
	wantRequests(t, w, reservation, 6) // two for each of three sets
}

// TestReservationsOfOtherVLANsDoNotWait for one that the Engine does not answer.
func TestReservationsOfOtherVLANsDoNotWait(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(r.URL.Path, "/reserve/") && bytes.Contains(body, []byte(anexiafake.VLAN)) {
			close(arrived)
			<-release
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.cloud.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	process := w.description()
	create := func(ctx context.Context, vlan string) error {
		d, err := process.Connect(ctx, driver.Account{SecretName: "anexia", Region: vlan}, secret())
		if err != nil {
			return err
		}
		d.(driver.Journaled).UseJournal(drivertest.NewJournal())
		_, err = d.Create(ctx, newRequest(identity, newConfig(t, func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].VLANID = vlan })))
		return err
	}
	first := make(chan error)
	go func() { first <- create(t.Context(), anexiafake.VLAN) }()
	<-arrived
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := create(bounded, anexiafake.OtherVLAN); !driver.IsInsufficientCapacity(err) {
		t.Errorf("the other VLAN: got %v, want an InsufficientCapacityError, because it has no addresses", err)
	}
	close(release)
	if err := <-first; !driver.IsUnfinished(err) {
		t.Errorf("the first VLAN: got %v, want an UnfinishedError", err)
	}
}

// TestAddressesOfOthersAreNotAssigned: what the journal does not have may come from the guest.
func TestAddressesOfOthersAreNotAssigned(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	created := create(t, w)
	w.journal.Drop(identity)
	found, err := w.connect(t).Get(t.Context(), created.Identity)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Addresses) != 0 || len(found.Reported) != 1 {
		t.Errorf("got the addresses %v and reported %v, want none and one", found.Addresses, found.Reported)
	}
}

// TestNoJournal: a driver without a journal requests nothing.
func TestNoJournal(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	d, err := w.description().Connect(t.Context(), driver.Account{SecretName: "anexia", Region: anexiafake.VLAN}, secret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil || driver.IsUnfinished(err) {
		t.Errorf("got %v, want a failure", err)
	}
	if changes := w.cloud.Changes(); changes != 0 {
		t.Errorf("%d requests changed something", changes)
	}
	var _ driver.Journaled = (*anexia.Driver)(nil)
}
