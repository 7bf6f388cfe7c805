// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"drover.io/runtime/egress"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"169.254.169.254:80": false, "[::ffff:169.254.169.254]:80": false, "[fe80::1%eth0]:443": false, "[fd00:ec2::254]:80": false,
		"[fd20:ce::254]:80": false, "168.63.129.16:80": false, "100.100.100.200:80": false, "[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b::a00:1]:443": true,
		"[fd00:c1::a9fe:a9fe]:80": false, "192.0.0.192:80": false, "[fd00:42::42]:80": false, "[fd00:ec2::23]:80": false,
		"[::169.254.169.254]:80": false, "[::ffff:0:169.254.169.254]:80": false, "[::ffff:0:10.0.0.1]:443": true, "[2002:a9fe:a9fe::1]:80": false, "[2002:a00:1::1]:443": true, "[64:ff9b:1::a9fe:a9fe]:80": false, "[::1]:443": true,
		"224.0.0.1:443": false, "[ff02::1]:443": false, "0.0.0.0:443": false, "[::]:443": false,
		"10.0.0.1:6443": true, "127.0.0.1:6443": true, "[2001:db8::1]:443": true, "203.0.113.7:443": true,
	} {
		err := egress.Control("tcp", address, nil)
		_, forbidden := errors.AsType[*egress.ForbiddenError](err)
		if forbidden == allowed || (err == nil) != allowed {
			t.Errorf("%s: got %v, want allowed %t", address, err, allowed)
		}
		if ip := netip.MustParseAddrPort(address).Addr(); egress.Forbidden(ip) == allowed {
			t.Errorf("%s: forbidden is %t", address, allowed)
		}
	}
}

// TestNamesOfForbiddenAddressesAreRefused: what counts is where it leads.
func TestNamesOfForbiddenAddressesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := egress.Dial(net.Dialer{})(t.Context(), "tcp", "0.0.0.0:1")
	if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
		t.Errorf("got %v, want a ForbiddenError", err)
	}
}

func TestNoRedirects(t *testing.T) {
	t.Parallel()
	requested := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requested = true }))
	t.Cleanup(inside.Close)
	server := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{CheckRedirect: egress.NoRedirects}).Do(request)
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, egress.ErrRedirected) || requested {
		t.Errorf("got %v, asked %t", err, requested)
	}
}

// TestForbiddenAddressesAreRefusedThroughAProxy either, however the address is written.
func TestForbiddenAddressesAreRefusedThroughAProxy(t *testing.T) {
	t.Parallel()
	at, err := url.Parse("http://proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	proxy := egress.Proxy(http.ProxyURL(at))
	for host, allowed := range map[string]bool{
		"169.254.169.254": false, "[::ffff:169.254.169.254]": false, "[fd00:ec2::254]": false, "2852039166": false, "0xa9fea9fe": false,
		"0251.0376.0251.0376": false, "169.254.169.254.": false, "169.0xfea9fe": false,
		"10.0.0.1": true, "127.0.0.1": true, "localhost": true, "a-name.invalid": true,
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
		got, err := proxy(request)
		_, forbidden := errors.AsType[*egress.ForbiddenError](err)
		if forbidden == allowed || allowed && got != at {
			t.Errorf("%s: got %v and %v, want allowed %t", host, got, err, allowed)
		}
	}
	if got, err := egress.Proxy(nil)(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://169.254.169.254/", nil)); got != nil || err != nil {
		t.Errorf("without a proxy: got %v and %v", got, err)
	}
}

func TestRestrict(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Header().Set("Long", strings.Repeat("x", egress.MaxHeaders+1))
		}
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	egress.Restrict(transport, net.Dialer{})
	client := &http.Client{Transport: transport}
	for target, problem := range map[string]string{
		server.URL: "", server.URL + "/long": "headers exceeded", "http://169.254.169.254/": "addresses are not allowed",
	} {
		response, err := client.Get(target)
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v, want %q", target, err, problem)
		}
	}
}
