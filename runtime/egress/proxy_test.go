// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"drover.io/runtime/egress"
)

func TestAddressThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "10.0.0.1", "host:443", "10.0.0.1:port"} {
		err := egress.Control("tcp", address, nil)
		if _, forbidden := errors.AsType[*egress.ForbiddenError](err); err == nil || forbidden {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

func TestForbiddenErrorNamesTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"169.254.169.254:80":          "connection to 169.254.169.254 refused: link-local, multicast, unspecified and metadata addresses are not allowed",
		"[::ffff:169.254.169.254]:80": "connection to 169.254.169.254 refused: link-local, multicast, unspecified and metadata addresses are not allowed",
		"[fe80::1%eth0]:443":          "connection to fe80::1 refused: link-local, multicast, unspecified and metadata addresses are not allowed",
		"[64:ff9b::a9fe:a9fe]:80":     "connection to 64:ff9b::a9fe:a9fe refused: link-local, multicast, unspecified and metadata addresses are not allowed",
	} {
		if err := egress.Control("tcp", address, nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// TestOnlyRequestsThroughAProxyAreChecked: of the others, Dial checks the address.
func TestOnlyRequestsThroughAProxyAreChecked(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	at := &url.URL{Scheme: "http", Host: "proxy.example:3128"}
	for name, test := range map[string]struct {
		proxy *url.URL
		err   error
		host  string
		fails bool
	}{
		"no proxy for the request":       {nil, nil, "169.254.169.254", false},
		"a proxy setting that is broken": {nil, boom, "10.0.0.1", true},
		"a proxy":                        {at, nil, "10.0.0.1", false},
		"a proxy to a forbidden address": {at, nil, "169.254.169.254", true},
		"a proxy with a port":            {at, nil, "169.254.169.254:8080", true},
		"a zone":                         {at, nil, "[fe80::1%25eth0]", true},
		"a number at the end of a name":  {at, nil, "a.1", true},
		"a digit within a name":          {at, nil, "a1.invalid", false},
		"an empty label at the end":      {at, nil, "a..", true},
		"hexadecimal in capitals":        {at, nil, "0XA9FEA9FE", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil)
			request.URL.Host = test.host
			got, err := egress.Proxy(func(*http.Request) (*url.URL, error) { return test.proxy, test.err })(request)
			if (err != nil) != test.fails || !test.fails && got != test.proxy || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("got %v and %v", got, err)
			}
		})
	}
}

func TestDialConnectsToPermittedAddresses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	conn, err := egress.Dial(net.Dialer{Timeout: time.Minute})(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
