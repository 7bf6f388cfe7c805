// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/metalstack"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

// window is longer than a claim is respected.
const window = 6 * time.Minute

// wantOneMachine fails unless exactly one machine is allocated for Drover, and nothing else is left.
func wantOneMachine(t *testing.T, d *metalstack.Driver) string {
	t.Helper()
	ids := drivertest.ProviderIDs(t, d)
	if len(ids) != 1 {
		t.Fatalf("%d machines are allocated, want 1: %q", len(ids), ids)
	}
	return ids[0]
}

func wantDeleted(t *testing.T, w env, d *metalstack.Driver, id driver.Identity) {
	t.Helper()
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("reading what was deleted: %v", err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

func wantBusy(t *testing.T, w env, d *metalstack.Driver) {
	t.Helper()
	before := w.cloud.Count("allocateMachine")
	if _, err := d.Create(t.Context(), newRequest(t, identity)); !driver.IsUnfinished(err) {
		t.Fatalf("creating: got %v, want it to wait", err)
	}
	if _, err := d.Get(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Fatalf("reading: got %v, want it to wait", err)
	}
	if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Fatalf("deleting: got %v, want it to wait", err)
	}
	if now := w.cloud.Count("allocateMachine"); now != before {
		t.Errorf("%d machines were requested meanwhile", now-before)
	}
}

// TestLostAnswers has no answer to one request of each operation, in a process that goes on and in one that ends then. The SDK repeats
// reads by itself.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"findMachines", "allocateIP", "findIPs", "allocateMachine"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", operation, restart), func(t *testing.T) {
				t.Parallel()
				w := newEnv(t, metalstackfake.Options{})
				d := w.connect(t)
				w.cloud.Lose(operation)
				if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil || driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
					t.Fatalf("creating without an answer: %v", err)
				}
				if restart {
					d = w.connect(t)
				}
				_, err := d.Create(t.Context(), newRequest(t, identity))
				if restart && operation == "allocateIP" {
					// Another process cannot know that no request for a machine was sent.
					wantBusy(t, w, d)
					w.clock.Advance(window)
					_, err = d.Create(t.Context(), newRequest(t, identity))
				}
				if err != nil {
					t.Fatalf("creating again: %v", err)
				}
				id := identity
				id.ProviderID = wantOneMachine(t, d)
				wantDeleted(t, w, d, id)
			})
		}
	}
}

// TestLateAllocation: a request without an answer is carried out some time later, when nobody may have requested another machine.
func TestLateAllocation(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			d := w.connect(t)
			stop, release := w.cloud.Hold("allocateMachine")
			if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil {
				t.Fatal("the request that was held succeeded")
			}
			stop()
			if restart {
				d = w.connect(t)
			}
			wantBusy(t, w, d)
			w.clock.Advance(2 * time.Minute)
			wantBusy(t, w, d)
			if err := release(); err != nil {
				t.Fatal(err)
			}
			created := mustCreate(t, d, identity)
			if got := wantOneMachine(t, d); got != created.ProviderID || w.cloud.Count("allocateMachine") != 2 {
				t.Errorf("created %q and listed %q, with %d requests", created.ProviderID, got, w.cloud.Count("allocateMachine"))
			}
		})
	}
}

// TestVeryLateAllocation: a request that arrives after another one was sent names an address that does not exist any more.
func TestVeryLateAllocation(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			d := w.connect(t)
			stop, release := w.cloud.Hold("allocateMachine")
			if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil {
				t.Fatal("the request that was held succeeded")
			}
			stop()
			if restart {
				d = w.connect(t)
			}
			w.clock.Advance(window)
			created := mustCreate(t, d, identity)
			if err := release(); err == nil || !strings.Contains(err.Error(), "NotFound") {
				t.Errorf("the late request: got %v, want a refusal", err)
			}
			if got := wantOneMachine(t, d); got != created.ProviderID {
				t.Errorf("listed %q, created %q", got, created.ProviderID)
			}
		})
	}
}

// TestLateAllocationAfterDeletion: a machine is not gone while a request for it may be carried out.
func TestLateAllocationAfterDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	stop, release := w.cloud.Hold("allocateMachine")
	if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil {
		t.Fatal("the request that was held succeeded")
	}
	stop()
	wantBusy(t, w, d)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, w, d, identity)

	if _, err := d.Create(t.Context(), newRequest(t, identity)); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, w, d, identity)
}

// TestCallersRace has processes that create the same machine at the same time, again and again until one has it.
func TestCallersRace(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{InstallDelay: 5})
	var callers sync.WaitGroup
	for range 6 {
		d := w.connect(t)
		callers.Go(func() {
			for range 40 {
				if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil {
					return
				} else if !driver.IsUnfinished(err) {
					t.Errorf("creating: %v", err)
					return
				}
			}
		})
	}
	callers.Wait()
	d := w.connect(t)
	mustCreate(t, d, identity)
	wantOneMachine(t, d)
	if requests := w.cloud.Count("allocateMachine"); requests != 1 {
		t.Errorf("%d machines were requested, want 1", requests)
	}
}

// interleave is a transport that runs a function before a request of its choice is sent, once.
type interleave struct {
	suffix string
	before func()
	done   bool
}

func (i *interleave) RoundTrip(r *http.Request) (*http.Response, error) {
	if !i.done && strings.HasSuffix(r.URL.Path, i.suffix) {
		i.done = true
		i.before()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestOtherCallerAtAnyMoment lets another process create the machine before each request of the first.
func TestOtherCallerAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"/machine/find", "/latest", "/network/" + metalstackfake.NetworkA, "/ip/find", "/ip/allocate", "/machine/allocate"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			other := w.connect(t)
			var otherErr error
			d := w.connectThrough(t, &interleave{suffix: before, before: func() { _, otherErr = other.Create(t.Context(), newRequest(t, identity)) }})
			_, err := d.Create(t.Context(), newRequest(t, identity))
			if otherErr != nil && !driver.IsUnfinished(otherErr) || err != nil && !driver.IsUnfinished(err) {
				t.Errorf("got %v and %v", err, otherErr)
			}
			mustCreate(t, d, identity)
			id := identity
			id.ProviderID = wantOneMachine(t, d)
			wantDeleted(t, w, d, id)
		})
	}
}

// TestSuspendedCaller sleeps for longer than its claim is respected, between any two of its requests, while another process
// takes over.
func TestSuspendedCaller(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"/ip/find", "/ip/allocate", "/machine/allocate"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			other := w.connect(t)
			var otherErr error
			d := w.connectThrough(t, &interleave{suffix: before, before: func() {
				w.clock.Advance(window)
				_, otherErr = other.Create(t.Context(), newRequest(t, identity))
			}})
			_, err := d.Create(t.Context(), newRequest(t, identity))
			if otherErr != nil && !driver.IsUnfinished(otherErr) {
				t.Errorf("taking over: %v", otherErr)
			}
			if err == nil && otherErr == nil {
				t.Error("both callers have created the machine")
			}
			mustCreate(t, d, identity)
			wantOneMachine(t, d)
		})
	}
}

// TestInterruptedAllocation: the API ends in the middle, and nothing undoes what it did.
func TestInterruptedAllocation(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			d := w.connect(t)
			w.cloud.BreakOff()
			if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil {
				t.Fatal("the allocation that broke off succeeded")
			}
			if restart {
				d = w.connect(t)
			}
			wantBusy(t, w, d)
			w.clock.Advance(window)
			var left []driver.AttachedObject
			for object, err := range d.AttachedObjects(t.Context(), identity.Owner) {
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, object)
			}
			if len(left) != 1 || left[0].Identity != identity {
				t.Errorf("what is left: %+v", left)
			}
			mustCreate(t, d, identity)
			wantOneMachine(t, d)
			wantDeleted(t, w, d, identity)
		})
	}
}

// TestUndoneAllocation: the API refuses an allocation after it has attached the addresses, and releases them some time later.
func TestUndoneAllocation(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{ReleaseDelay: 6})
	d := w.connect(t)
	w.cloud.Conflict()
	_, err := d.Create(t.Context(), newRequest(t, identity))
	if err == nil || driver.IsUnfinished(err) || strings.Contains(err.Error(), "00000000-0000") {
		t.Fatalf("got %v, want a stable error", err)
	}
	for range 20 {
		// An address that is not marked any more and about to be released is used, and the allocation refused where it is too late.
		if _, err = d.Create(t.Context(), newRequest(t, identity)); err == nil || driver.IsInvalidConfiguration(err) {
			break
		}
	}
	if err != nil {
		t.Fatalf("after the addresses were released: %v", err)
	}
	wantOneMachine(t, d)
	wantDeleted(t, w, d, identity)
}

// TestCrashAfterEachRequest ends the process after each of the requests of a creation, and of a deletion after that.
func TestCrashAfterEachRequest(t *testing.T) {
	t.Parallel()
	for n := 1; n < 12; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			crashing := &crash{after: n}
			_, err := w.connectThrough(t, crashing).Create(t.Context(), newRequest(t, identity))
			if err == nil && crashing.sent >= n {
				t.Fatal("the creation survived the crash")
			}
			w.clock.Advance(window)
			d := w.connect(t)
			created := mustCreate(t, d, identity)
			if got := wantOneMachine(t, d); got != created.ProviderID {
				t.Errorf("listed %q, created %q", got, created.ProviderID)
			}
			crashing = &crash{after: n}
			id := identity
			id.ProviderID = created.ProviderID
			_ = w.connectThrough(t, crashing).Delete(t.Context(), id)
			w.clock.Advance(window)
			wantDeleted(t, w, w.connect(t), id)
		})
	}
}

// crash lets so many requests through, and loses the answer of the last.
type crash struct{ after, sent int }

func (c *crash) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.sent >= c.after {
		return nil, errors.New("the process has ended")
	}
	c.sent++
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || c.sent < c.after {
		return response, err
	}
	return nil, errors.Join(errors.New("the process ends"), response.Body.Close())
}

// TestUnsentRequestIsNotWaitedFor: without a connection no request can arrive later.
func TestUnsentRequestIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connectThrough(t, &interleave{suffix: "/machine/allocate", before: func() {}})
	w.cloud.RefuseOperation("allocateMachine", http.StatusTooManyRequests, "slow down")
	if _, err := d.Create(t.Context(), newRequest(t, identity)); !driver.IsRateLimited(err) {
		t.Fatalf("got %v", err)
	}
	mustCreate(t, d, identity)
	wantOneMachine(t, d)
}

// TestHardwareOfSomebodyElse: the hardware of a machine that was freed belongs to somebody else. It is neither shown nor touched.
func TestHardwareOfSomebodyElse(t *testing.T) {
	t.Parallel()
	other := identity
	other.UID, other.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	tagsOf := func(id driver.Identity) (tags []string) {
		for key, value := range id.Tags() {
			tags = append(tags, key+"="+value)
		}
		return tags
	}
	for name, test := range map[string]struct {
		project, role string
		tags          []string
		is            func(error) bool
	}{
		"another user of the project":        {metalstackfake.Project, "machine", []string{"team=web"}, driver.IsNotFound},
		"another project":                    {metalstackfake.OtherProject, "machine", nil, driver.IsNotFound},
		"another project with the same tags": {metalstackfake.OtherProject, "machine", tagsOf(identity), driver.IsNotFound},
		"a firewall":                         {metalstackfake.Project, "firewall", nil, driver.IsNotFound},
		"a firewall with the same tags":      {metalstackfake.Project, "firewall", tagsOf(identity), driver.IsNotOwned},
		"another machine of the Cluster":     {metalstackfake.Project, "machine", tagsOf(other), driver.IsNotOwned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			d := w.connect(t)
			id := identity
			created := mustCreate(t, d, id)
			id.ProviderID = created.ProviderID
			w.cloud.Reallocate(created.ID, test.project, test.role, test.tags...)
			before := w.cloud.Changes()
			_, err := d.Get(t.Context(), id)
			for verb, err := range map[string]error{"reading": err, "restarting": d.Restart(t.Context(), id), "tagging": d.Tag(t.Context(), id)} {
				if !test.is(err) {
					t.Errorf("%s: got %v", verb, err)
				}
			}
			if err := d.Delete(t.Context(), id); err != nil && !driver.IsNotOwned(err) && !driver.IsUnfinished(err) {
				t.Errorf("deleting: %v", err)
			}
			if now := w.cloud.Machine(created.ID); now.Name != "another" {
				t.Errorf("the machine of somebody else is now %+v", now)
			}
			if w.cloud.Changes() != before {
				t.Errorf("%q", w.cloud.Calls())
			}
		})
	}
}

// TestReusedHardware: a machine gets the hardware of one that was deleted before, and each has its own.
func TestReusedHardware(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{Machines: 1})
	d := w.connect(t)
	first, second := identity, identity
	second.UID, second.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	first.ProviderID = mustCreate(t, d, first).ProviderID
	if err := d.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second.ProviderID = mustCreate(t, d, second).ProviderID
	if first.ProviderID != second.ProviderID {
		t.Fatalf("%q is not the hardware of %q, so this proves nothing", second.ProviderID, first.ProviderID)
	}
	if _, err := d.Get(t.Context(), first); !driver.IsNotOwned(err) {
		t.Errorf("reading the first: %v", err)
	}
	if err := d.Delete(t.Context(), first); !driver.IsNotOwned(err) {
		t.Errorf("deleting the first: %v", err)
	}
	if found, err := d.Get(t.Context(), second); err != nil || found.Identity != second {
		t.Errorf("reading the second: %+v and %v", found, err)
	}
	wantOneMachine(t, d)
}

// TestHardwareChangesHandsBeforeItIsFreed: between the look-up of a machine and the request to free it somebody else gets it.
func TestHardwareChangesHandsBeforeItIsFreed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	id := identity
	created := mustCreate(t, w.connect(t), id)
	id.ProviderID = created.ProviderID
	reads := 0
	d := w.connectThrough(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/machine/"+created.ID) {
			if reads++; reads == 2 {
				w.cloud.Reallocate(created.ID, metalstackfake.Project, "machine", "team=web")
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	if err := d.Delete(t.Context(), id); err != nil && !driver.IsUnfinished(err) {
		t.Fatal(err)
	}
	if reads < 2 || w.cloud.Count("freeMachine") != 0 || w.cloud.Machine(created.ID).Name != "another" {
		t.Errorf("%d reads, %d machines were freed", reads, w.cloud.Count("freeMachine"))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestReleaseIsLeftToTheAPI: the addresses of a machine that was freed are released some time later, first the mark of the machine and
// then the address. Whoever frees one meanwhile may free that of the next machine.
func TestReleaseIsLeftToTheAPI(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"new": 0, "old": window} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{ReleaseDelay: 40})
			d := w.connect(t)
			id := identity
			id.ProviderID = mustCreate(t, d, id).ProviderID
			w.clock.Advance(age)
			for n := range 20 {
				if err := d.Delete(t.Context(), id); err != nil {
					t.Fatalf("deletion %d: %v", n, err)
				}
				if n == 0 && len(w.cloud.Addresses()) == 0 {
					t.Fatal("the addresses were released at once, so this proves nothing")
				}
			}
			if freed, updated := w.cloud.Count("freeIP"), w.cloud.Count("updateIP"); freed+updated > 0 {
				t.Errorf("%d addresses were freed, %d updated", freed, updated)
			}
		})
	}
}

// TestStaticAddressesStay: what was allocated beforehand stays, whatever happens to the machines that have it.
func TestStaticAddressesStay(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	before := w.cloud.Addresses()
	req := newRequest(t, identity)
	req.Config = newConfig(t, allFields)
	created, err := d.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if ips := w.cloud.Machine(created.ID).IPs; !slices.Contains(ips, metalstackfake.StaticIP) || len(ips) != 3 {
		t.Errorf("the machine has %q", ips)
	}
	wantDeleted(t, w, d, identity)
	for range 5 { // the API releases the others some requests later
		_, _ = d.Get(t.Context(), identity)
	}
	if diff := cmp.Diff(before, w.cloud.Addresses()); diff != "" {
		t.Errorf("addresses (-before +after):\n%s", diff)
	}
}

// TestFullNetwork has a private network without a free address.
func TestFullNetwork(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	tiny := newConfig(t, func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = metalstackfake.TinyNetwork })
	var err error
	for n := range 4 {
		req := newRequest(t, identity)
		req.Identity.UID, req.Identity.Name, req.Config = types.UID(fmt.Sprint("uid-", n)), fmt.Sprintf("worker-%d", n), tiny
		if _, err = d.Create(t.Context(), req); err != nil {
			break
		}
	}
	if err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("in a full network: %v", err)
	}
	if requests, machines := w.cloud.Count("allocateMachine"), len(drivertest.ProviderIDs(t, d)); requests != machines {
		t.Errorf("%d machines were requested and %d allocated", requests, machines)
	}
}

// fullFamily is a transport with which no address of one family can be allocated any more.
type fullFamily struct {
	cloud  *metalstackfake.Cloud
	family string
}

func (f fullFamily) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/ip/allocate") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(f.family)) {
			f.cloud.RefuseOperation("allocateIP", http.StatusInternalServerError, "Internal cannot allocate free ip in ipam, no ips left")
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestOneFamilyHasNoAddresses: the attempts take no addresses of the other family.
func TestOneFamilyHasNoAddresses(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connectThrough(t, fullFamily{w.cloud, "IPv6"})
	req := newRequest(t, identity)
	req.Config = newConfig(t, func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = metalstackfake.DualNetwork })
	for range 4 {
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) || driver.IsUnfinished(err) {
			t.Fatalf("got %v, want a transient error", err)
		}
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Fatalf("%q is left", left)
		}
		w.clock.Advance(2 * time.Minute)
	}
}

// TestAddressThatStaysAfterARefusal: no machine can be allocated with it, so nobody waits until it is old.
func TestAddressThatStaysAfterARefusal(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	w.cloud.RefuseOperation("allocateMachine", http.StatusUnprocessableEntity, "try again later")
	w.cloud.RefuseOperation("freeIP", http.StatusInternalServerError, "injected error")
	if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil || driver.IsUnfinished(err) {
		t.Fatalf("got %v", err)
	}
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Fatalf("%q is left, want the address", left)
	}
	mustCreate(t, d, identity)
	if allocated := w.cloud.Count("allocateIP"); allocated != 1 {
		t.Errorf("%d addresses were allocated, want the one that stayed", allocated)
	}
	wantDeleted(t, w, d, identity)
}
