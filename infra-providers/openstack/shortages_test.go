// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

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

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
)

// TestWhatListsShowIsKeptInBounds has a Nova whose list shows ever other servers that found no host, in places that
// nobody has heard of, and that says at length why.
func TestWhatListsShowIsKeptInBounds(t *testing.T) {
	t.Parallel()
	const shown = mostKept + 200
	now, page := time.Unix(1_000_000, 0).UTC(), 0
	long := strings.Repeat("x", 2*longestKey)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/detail", func(w http.ResponseWriter, _ *http.Request) {
		page++
		var all []map[string]any
		for n := range shown {
			name := fmt.Sprint(page, "-", n)
			all = append(all, map[string]any{"id": name, "status": "ERROR", "metadata": map[string]string{flavorKey: name}})
		}
		all = append(all, map[string]any{"id": long, "status": "ERROR", "metadata": map[string]string{flavorKey: long}}) // last, with room left for it
		answerJSON(w, map[string]any{"servers": all})
	})
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, map[string]any{"server": map[string]any{"fault": map[string]any{
			"code": http.StatusInternalServerError, "created": now, "message": strings.Repeat("y", 8<<10), "details": long,
		}}})
	})
	nova := httptest.NewServer(mux)
	t.Cleanup(nova.Close)
	services := &access.Services{Compute: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}}
	d := &Driver{now: func() time.Time { return now }}
	for range 2 {
		seen := 0
		if err := d.each(t.Context(), services, "", func(servers.Server) bool { seen++; return true }); err != nil || seen != shown+1 {
			t.Fatalf("got %v and %d servers, want %d", err, seen, shown+1)
		}
		if len(d.faults) > mostKept || len(d.since) > mostKept {
			t.Errorf("%d faults and %d places are kept, want %d of each at most", len(d.faults), len(d.since), mostKept)
		}
		for id, fault := range d.faults {
			if len(fault.Message)+len(fault.Details) > 4096 {
				t.Fatalf("of server %s, %d bytes are kept", id, len(fault.Message)+len(fault.Details))
			}
		}
		if _, kept := d.faults[long]; kept {
			t.Error("a fault of a server with an endless ID is kept")
		}
		if _, kept := d.since[shortPlace{flavor: long}]; kept {
			t.Error("a place with an endless name is kept")
		}
		now = now.Add(asideFor)
	}
	if err := d.short("", Config{}, now); err != nil {
		t.Errorf("a place that nobody was short of: got %v", err)
	}
}

// TestAPlaceIsShortForAWhile has room for new places once the old ones are short no more.
func TestAPlaceIsShortForAWhile(t *testing.T) {
	t.Parallel()
	now, kept := time.Unix(1_000_000, 0), shortages{}
	found := func(flavor string) {
		kept.notice(servers.Server{Status: "ERROR", Metadata: map[string]string{flavorKey: flavor}, Fault: servers.Fault{Code: http.StatusInternalServerError, Created: now}}, now)
	}
	is := func(flavor string) bool {
		config := Config{}
		config.Spec.Flavor = flavor
		return driver.IsInsufficientCapacity(kept.short("", config, now))
	}
	for n := range mostKept {
		found(fmt.Sprint(n))
	}
	if found("new"); is("new") || !is("0") {
		t.Errorf("with all places taken: new %t, old %t", is("new"), is("0"))
	}
	now = now.Add(asideFor)
	if found("new"); !is("new") || is("0") || len(kept.since) != 1 {
		t.Errorf("after a while: new %t, old %t, %d places", is("new"), is("0"), len(kept.since))
	}
}

func answerJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// TestAShortageIsOfOneNamespace: that no host takes a server may be due to its image, which is the namespace's own.
func TestAShortageIsOfOneNamespace(t *testing.T) {
	t.Parallel()
	now, kept := time.Unix(1_000_000, 0), shortages{}
	metadata := attachments.Tags(driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "o", Namespace: "a", Name: "c"}})
	metadata[flavorKey] = "m1.small"
	kept.notice(servers.Server{Status: "ERROR", Metadata: metadata, Fault: servers.Fault{Code: http.StatusInternalServerError, Created: now}}, now)
	config := Config{}
	config.Spec.Flavor = "m1.small"
	for namespace, want := range map[string]bool{"a": true, "b": false} {
		if err := kept.short(namespace, config, now); driver.IsInsufficientCapacity(err) != want {
			t.Errorf("namespace %q: got %v", namespace, err)
		}
	}
}
