// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// body is an error answer in the Engine's form.
func body(code, validation string) string {
	return `{"error": {"code": ` + code + `, "message": "no", "validation": ` + validation + `}, "debug": {"source": ""}}`
}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	plain := func(err error) bool {
		return err != nil && !driver.IsNotFound(err) && !driver.IsUnauthorized(err) && !driver.IsRateLimited(err) && !driver.IsInvalidConfiguration(err)
	}
	for name, test := range map[string]struct {
		status int
		body   string
		// any is the kind for any call, creating that for a request with the configuration in it.
		any, creating     func(error) bool
		refused, notFound bool
		field             string
	}{
		"token refused":              {status: 401, body: body("401", "[]"), any: driver.IsUnauthorized, creating: driver.IsUnauthorized, refused: true},
		"permission lacking":         {status: 403, body: body("403", "[]"), any: driver.IsUnauthorized, creating: driver.IsUnauthorized, refused: true},
		"a firewall before it":       {status: 403, body: "<html>", any: plain, creating: plain},
		"not found":                  {status: 404, body: body("404", "[]"), any: plain, creating: driver.IsInvalidConfiguration, refused: true, notFound: true, field: "spec.locationID"},
		"no such route":              {status: 404, body: "<html>", any: plain, creating: plain},
		"another code in the body":   {status: 404, body: body("500", "[]"), any: plain, creating: plain},
		"conflict":                   {status: 409, body: body("409", "[]"), any: plain, creating: plain, refused: true},
		"invalid":                    {status: 422, body: body("422", `{"memory_mb": "too much"}`), any: plain, creating: driver.IsInvalidConfiguration, refused: true, field: "spec.memoryMB"},
		"invalid element":            {status: 422, body: body("422", `{"network[0].vlan": "unknown"}`), any: plain, creating: driver.IsInvalidConfiguration, refused: true, field: "spec.networks"},
		"invalid and not said where": {status: 400, body: body("400", "[]"), any: plain, creating: driver.IsInvalidConfiguration, refused: true, field: "spec"},
		"invalid and unknown":        {status: 422, body: body("422", `{"": "x", "new": "y"}`), any: plain, creating: driver.IsInvalidConfiguration, refused: true, field: "spec"},
		"too many":                   {status: 429, body: body("429", "[]"), any: driver.IsRateLimited, creating: driver.IsRateLimited, refused: true},
		"too many for a proxy":       {status: 429, body: "", any: driver.IsRateLimited, creating: driver.IsRateLimited},
		"timeout":                    {status: 408, body: body("408", "[]"), any: plain, creating: plain},
		"failure":                    {status: 500, body: body("500", "[]"), any: plain, creating: plain},
		"redirect":                   {status: 302, body: "", any: plain, creating: plain},
		"no JSON":                    {status: 200, body: "<html>", any: plain, creating: plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://elsewhere.example.org/")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			_, err := newClient(server.URL, "secret-token").progress(t.Context(), "1")
			if !test.any(toError(err)) {
				t.Errorf("any call: got %v", toError(err))
			}
			creating := toCreateError(err, "spec.locationID")
			if !test.creating(creating) {
				t.Errorf("a creation: got %v", creating)
			}
			if invalid, ok := errors.AsType[*driver.InvalidConfigurationError](creating); ok && invalid.Field != test.field {
				t.Errorf("got field %s, want %s", invalid.Field, test.field)
			}
			if isRefused(err) != test.refused || isNotFound(err) != test.notFound {
				t.Errorf("refused %t and not found %t, want %t and %t", isRefused(err), isNotFound(err), test.refused, test.notFound)
			}
			if pause := driver.RetryAfter(toError(err)); test.status == http.StatusTooManyRequests && pause != 7*time.Second {
				t.Errorf("got a pause of %s, want that of the header", pause)
			}
		})
	}
}

// TestRefusedAddresses: only a refusal of nothing else is no mistake in the spec.
func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	for validation, want := range map[string]bool{
		`{"network[0].ips": "taken"}`:                                 true,
		`{"network.0.ips.1": "taken", "network.1.ips": "unknown"}`:    true,
		`{"network[0].ips": "taken", "network[0].nic_type": "wrong"}`: false,
		`{"network": "wrong"}`:                                        false,
		`{"ips": "wrong"}`:                                            false,
		`[]`:                                                          false,
	} {
		answer := &http.Response{StatusCode: http.StatusUnprocessableEntity}
		if got := isAboutAddresses(newAPIError(answer, []byte(body("422", validation)))); got != want {
			t.Errorf("%s: got %t", validation, got)
		}
	}
	if isAboutAddresses(errors.New("another")) {
		t.Error("an error of no answer is about addresses")
	}
}

// TestNetworkErrorIsNoRefusal: after it a request may have been carried out.
func TestNetworkErrorIsNoRefusal(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newClient("http://127.0.0.1:1", "token").provision(ended, "l", "t", provision{})
	if !errors.Is(err, context.Canceled) || isRefused(err) || isNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestHostNames(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "0a1b2c3d-0000-4000-8000-0000000000ff", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
	host, ok := hostName(id)
	if !ok || len(host) != 55 {
		t.Fatalf("got host name %q", host)
	}
	for _, text := range []string{host, "12345-" + host, "ACME-" + host} {
		parsed, ok := parseName(text)
		if got := parsed.identity(id); !ok || got != id {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	for _, text := range []string{"x" + host, host + "-1", host[:54], "worker-1", ""} {
		if _, ok := parseName(text); ok {
			t.Errorf("%q is taken for a name", text)
		}
	}
	moved := id
	moved.Owner.UID = "d"
	parsed, _ := parseName(host)
	if got := parsed.identity(moved); got.Owner.UID != "" || got.Name != id.Name {
		t.Errorf("after a move: got %+v, want the names and no UID of the Cluster", got)
	}
	for what, change := range map[string]func(*driver.Identity){
		"name":      func(i *driver.Identity) { i.Name = "worker-2" },
		"namespace": func(i *driver.Identity) { i.Owner.Namespace = "tea" },
		"cluster":   func(i *driver.Identity) { i.Owner.Name = "mhome" },
		"no name":   func(i *driver.Identity) { i.Name = "" },
	} {
		other := id
		change(&other)
		if got := parsed.identity(other); got.Name != driver.UnknownOwner.Name || got.UID != id.UID {
			t.Errorf("another %s: got %+v", what, got)
		}
		if err := other.Check(parsed.identity(other)); !driver.IsNotOwned(err) || driver.IsUntagged(err) {
			t.Errorf("another %s: got %v, want a NotOwnedError of another machine", what, err)
		}
	}
	for _, uid := range []string{"", "x", "0A1B2C3D-0000-4000-8000-0000000000FF"} {
		id.UID = types.UID(uid)
		if _, ok := hostName(id); ok {
			t.Errorf("UID %q has a host name", uid)
		}
	}
}

// TestAddressesHaveManyForms: the Engine may write one otherwise than it did when it was reserved.
func TestAddressesHaveManyForms(t *testing.T) {
	t.Parallel()
	known := record{Addresses: []address{{IP: "2001:db8:0:0::1"}}}
	assigned, reported := toAddresses([]network{{IPv6: []string{"2001:DB8::1", "2001:db8::2"}}}, known)
	if len(assigned) != 1 || len(reported) != 1 || reported[0].Address != "2001:db8::2" {
		t.Errorf("assigned %v, reported %v", assigned, reported)
	}
}
