// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover.io/runtime/egress"
)

// long answers with headers that take much more memory than they have bytes.
func long(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Long", strings.Repeat("x", egress.MaxHeaders+1))
}

// TestNoRequestsToOtherHosts has the identity service of a Secret redirect to a host of the provider's network, and be at
// an address where the metadata service of the provider's host would answer.
func TestNoRequestsToOtherHosts(t *testing.T) {
	t.Parallel()
	requested := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requested = true }))
	t.Cleanup(inside.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	endless := httptest.NewTLSServer(http.HandlerFunc(long))
	t.Cleanup(endless.Close)
	for address, want := range map[string]func(error) bool{
		server.URL:               func(err error) bool { return errors.Is(err, egress.ErrRedirected) },
		server.URL + "/v3":       func(err error) bool { return errors.Is(err, egress.ErrRedirected) },
		endless.URL:              func(err error) bool { return err != nil && strings.Contains(err.Error(), "headers exceeded") },
		"http://169.254.169.254": func(err error) bool { _, forbidden := errors.AsType[*egress.ForbiddenError](err); return forbidden },
	} {
		session, err := Open(fromSecret, credentials(map[string]string{
			CloudsKey: "clouds: {x: {verify: false, auth: {auth_url: " + address + ", username: u, password: p, project_name: t, user_domain_name: d, project_domain_name: d}}}",
		}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Services(t.Context()); !want(err) {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if requested {
		t.Error("the host of the provider's network was asked")
	}
}
