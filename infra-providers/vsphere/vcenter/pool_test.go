// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drover.io/runtime/egress"
)

// TestUnusedSessionsAreRemoved has a Secret whose password changes every minute.
func TestUnusedSessionsAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	pool := &Pool{Now: func() time.Time { return now }}
	kept := pool.Open(Account{Password: "kept"})
	for n := range 300 {
		now = now.Add(time.Minute)
		pool.Open(Account{Password: fmt.Sprint(n)})
		if pool.Open(Account{Password: "kept"}) != kept {
			t.Fatal("a session that is used was forgotten")
		}
	}
	if got := len(pool.sessions); got > 20 {
		t.Errorf("%d sessions are kept", got)
	}
}

// TestRedirectsAreNotFollowed has the server of a Secret redirect to a host of the provider's network
// and name an address where the metadata service of the provider's host would answer.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	requested := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requested = true }))
	t.Cleanup(inside.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	endless := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Long", strings.Repeat("x", egress.MaxHeaders+1))
	}))
	t.Cleanup(endless.Close)
	for name, test := range map[string]struct {
		server string
		want   func(error) bool
	}{
		"redirects": {server.URL, func(err error) bool { return err != nil }},
		"answers with long headers": {endless.URL, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "headers exceeded")
		}},
		"is the host's own": {"https://169.254.169.254", func(err error) bool {
			_, forbidden := errors.AsType[*egress.ForbiddenError](err)
			return forbidden
		}},
	} {
		_, err := (&Pool{}).Open(Account{Server: test.server, Username: "u", Password: "p", Insecure: true, OfSecret: true}).Client(t.Context())
		if !test.want(err) {
			t.Errorf("a server that %s: got %v", name, err)
		}
	}
	if requested {
		t.Error("the host of the provider's network was asked")
	}
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"vcenter.example": true, "vcenter.example:8443": true, "https://vcenter.example/sdk": true, "http://127.0.0.1:8989": true, "http://localhost:8989/sdk": true,
		"http://vcenter.example": false, "http://10.0.0.1/sdk": false,
	} {
		if got := Encrypted(server); got != want {
			t.Errorf("%s: %t, want %t", server, got, want)
		}
	}
}
