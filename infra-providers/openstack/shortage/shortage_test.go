// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package shortage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"

	"drover.io/infra-providers/driver"
)

func noHost(id string, at time.Time) servers.Server {
	return servers.Server{ID: id, Status: "ERROR", Fault: servers.Fault{Code: http.StatusInternalServerError, Created: at}}
}

// TestCacheIsBounded has a Nova whose lists have ever other servers without a host, of unknown offerings and with long faults.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const listed = MaxEntries + 200
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0).UTC())
	long := strings.Repeat("x", 2*maxKey)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"server": map[string]any{"fault": map[string]any{
			"code": http.StatusInternalServerError, "created": clock.Now(), "message": strings.Repeat("y", 8<<10), "details": long,
		}}})
	})
	nova := httptest.NewServer(mux)
	t.Cleanup(nova.Close)
	compute := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}
	c := New(clock)
	for page := range 2 {
		for n := range listed + 1 {
			name := fmt.Sprint(page, "-", n)
			if n == listed {
				name = long
			}
			server := servers.Server{ID: name, Status: "ERROR"}
			c.AddFault(t.Context(), compute, &server)
			c.Observe(server, Offering{Flavor: name})
		}
		if c.faults.Len() > MaxEntries || c.offerings.Len() > MaxEntries {
			t.Errorf("%d faults and %d offerings are cached, want at most %d of each", c.faults.Len(), c.offerings.Len(), MaxEntries)
		}
		for id, fault := range c.faults.All() {
			if len(fault.Message)+len(fault.Details) > 4096 {
				t.Fatalf("the fault of server %s has %d bytes", id, len(fault.Message)+len(fault.Details))
			}
		}
		if c.faults.Has(long) {
			t.Error("the fault of a server with a long ID is cached")
		}
		if c.offerings.Has(Offering{Flavor: long}) {
			t.Error("an offering with a long name is cached")
		}
		clock.SetTime(clock.Now().Add(Window))
	}
	if err := c.Check(Offering{}); err != nil {
		t.Errorf("an offering without a shortage: got %v", err)
	}
}

// TestFaultIsReadOnce reads a failed server once, and again after DeleteFault.
func TestFaultIsReadOnce(t *testing.T) {
	t.Parallel()
	reads := 0
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"server": map[string]any{"fault": map[string]any{"code": 500, "message": "No valid host"}}})
	}))
	t.Cleanup(nova.Close)
	compute := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}
	c := New(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for step, want := range []int{1, 1, 2} {
		if step == 2 {
			c.DeleteFault("a")
		}
		server := servers.Server{ID: "a", Status: "ERROR"}
		c.AddFault(t.Context(), compute, &server)
		if server.Fault.Message != "No valid host" || reads != want {
			t.Errorf("step %d: got fault %+v after %d reads, want %d", step, server.Fault, reads, want)
		}
	}
	active := servers.Server{ID: "b", Status: "ACTIVE"}
	if c.AddFault(t.Context(), compute, &active); reads != 2 {
		t.Error("an active server was read")
	}
}

// TestShortageExpires records offerings up to the bound, where a new one replaces the one that expires first.
func TestShortageExpires(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(start)
	c := New(clock)
	wantShort := func(flavor string, want bool) {
		t.Helper()
		err := c.Check(Offering{Flavor: flavor, Zone: "z"})
		if driver.IsInsufficientCapacity(err) != want || !want && err != nil {
			t.Errorf("flavor %s: got %v, want a shortage: %t", flavor, err, want)
		}
	}
	for n := range MaxEntries {
		c.Observe(noHost("s", start), Offering{Flavor: fmt.Sprint(n), Zone: "z"})
	}
	c.Observe(noHost("s", start.Add(time.Second)), Offering{Flavor: "new", Zone: "z"})
	wantShort("0", false)
	wantShort("1", true)
	wantShort("new", true)
	c.Observe(noHost("s", start.Add(-time.Minute)), Offering{Flavor: "1", Zone: "z"}) // an earlier failure does not shorten it
	clock.SetTime(start.Add(Window - 1))
	wantShort("1", true)
	clock.SetTime(start.Add(Window))
	wantShort("1", false)
	wantShort("new", true)
	c.Observe(noHost("s", start), Offering{Flavor: "old", Zone: "z"})
	wantShort("old", false)
	if err := c.Check(Offering{Flavor: "new", Zone: "other"}); err != nil {
		t.Errorf("another zone: got %v", err)
	}
}

func TestHasNoHost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*servers.Server)
		want   bool
	}{
		"is true without a host":             {func(*servers.Server) {}, true},
		"is false during the creation":       {func(s *servers.Server) { s.Status = "BUILD" }, false},
		"is false after a host accepted it":  {func(s *servers.Server) { s.HostID = "h" }, false},
		"is false after the server ran":      {func(s *servers.Server) { s.LaunchedAt = time.Now() }, false},
		"is false after a fault of the user": {func(s *servers.Server) { s.Fault.Code = 409 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := noHost("s", time.Time{})
			test.change(&server)
			if got := HasNoHost(server); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestShortageIsOfOneNamespace: that no host accepts a server may be due to its image, which is the namespace's own.
func TestShortageIsOfOneNamespace(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	c := New(clocktesting.NewFakePassiveClock(start))
	at := Offering{Namespace: "a", Flavor: "m1.small", Zone: "z"}
	c.Observe(noHost("s", start), at)
	if err := c.Check(at); !driver.IsInsufficientCapacity(err) {
		t.Errorf("the namespace of the server: got %v", err)
	}
	at.Namespace = "b"
	if err := c.Check(at); err != nil {
		t.Errorf("another namespace: got %v", err)
	}
}
