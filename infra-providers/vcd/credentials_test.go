// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

const region = vcdfake.VDC + "/" + vcdfake.VApp

func accountOf(t *testing.T, options vcd.Options, account driver.Account, secret driver.Credentials) (string, error) {
	t.Helper()
	d, err := vcd.Cloud(options).Connect(t.Context(), account, secret)
	if err != nil {
		return "", err
	}
	return d.(driver.AccountIdentifier).AccountID(t.Context())
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	password := map[string]string{"apiToken": "", "username": vcdfake.User, "password": vcdfake.Password}
	for name, test := range map[string]struct {
		change map[string]string
		want   string
	}{
		"an API token":                   {nil, ""},
		"a password":                     {password, ""},
		"a URL with the path of the API": {map[string]string{"url": w.url + "/api"}, ""},
		"a wrong API token":              {map[string]string{"apiToken": "other"}, "invalid_grant"},
		"a wrong password":               {map[string]string{"apiToken": "", "username": vcdfake.User, "password": "other"}, "UNAUTHORIZED: Invalid credentials"},
		"an API token and a password":    {map[string]string{"username": vcdfake.User, "password": vcdfake.Password}, "keep one of them"},
		"neither":                        {map[string]string{"apiToken": ""}, "neither apiToken nor username and password"},
		"no organization":                {map[string]string{"organization": ""}, "organization must be"},
		"a path as the organization":     {map[string]string{"organization": "a/../b"}, "organization must be"},
		"no URL":                         {map[string]string{"url": ""}, "url must be"},
		"a URL without TLS":              {map[string]string{"url": "http://vcd.example.com"}, "begin with https"},
		"a URL with a path":              {map[string]string{"url": w.url + "/tenant/acme"}, "no path"},
		"a URL with a password":          {map[string]string{"url": "https://a:b@vcd.example.com"}, "url must be"},
		"a file as the authority":        {map[string]string{"ca.crt": "/etc/ssl/ca.crt"}, "a file is not read"},
		"another organization":           {map[string]string{"organization": "other"}, "UNAUTHORIZED"},
		"what is far too long":           {map[string]string{"password": strings.Repeat("x", 65<<10)}, "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := w.secret()
			for key, value := range test.change {
				secret[key] = []byte(value)
			}
			id, err := accountOf(t, vcd.Options{}, driver.Account{SecretName: "vcd", Region: region}, secret)
			switch {
			case test.want == "" && (err != nil || !strings.HasPrefix(id, "urn:vcloud:org:") || !strings.Contains(id, "/urn:vcloud:vdc:")):
				t.Errorf("got the account %q and %v", id, err)
			case test.want != "" && (!driver.IsUnauthorized(err) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an UnauthorizedError with %q", err, test.want)
			case err != nil && (strings.Contains(err.Error(), vcdfake.Password) && test.want == "" || strings.Contains(err.Error(), vcdfake.APIToken)):
				t.Errorf("the error has credentials in it: %v", err)
			}
		})
	}
}

// TestEnvironmentIsNotMixedWithASecret: values of the environment never complete those of a Secret.
func TestEnvironmentIsNotMixedWithASecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	values := map[string]string{"VCD_URL": w.url, "VCD_ORG": vcdfake.Organization, "VCD_USER": vcdfake.User, "VCD_PASSWORD": vcdfake.Password}
	options := vcd.Options{Getenv: func(name string) string { return values[name] }}
	if _, err := accountOf(t, options, driver.Account{Region: region}, nil); err != nil {
		t.Errorf("with the environment: %v", err)
	}
	full := w.secret()
	for key := range full {
		secret := maps.Clone(full)
		delete(secret, key)
		if _, err := accountOf(t, options, driver.Account{SecretName: "vcd", Region: region}, secret); !driver.IsUnauthorized(err) {
			t.Errorf("a Secret without %s: got %v, want an UnauthorizedError", key, err)
		}
	}
}

// TestRefusedPasswordIsNotTriedAgain for a minute: an organization may lock the user.
func TestRefusedPasswordIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	logins := 0
	fake := vcdfake.New(vcdfake.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/oauth/") {
			logins++
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	w := newEnv(t, vcdfake.Options{})
	d, err := w.description().Connect(t.Context(), driver.Account{SecretName: "vcd", Region: region},
		driver.Credentials{"url": []byte(server.URL), "organization": []byte(vcdfake.Organization), "apiToken": []byte("wrong")})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) {
			t.Errorf("got %v, want an UnauthorizedError", err)
		}
	}
	w.clock.Advance(2 * 60e9)
	_, _ = d.Get(t.Context(), identity)
	if logins != 2 {
		t.Errorf("%d logins, want 2", logins)
	}
}

// TestServerIsTrustedByItsAuthority only.
func TestServerIsTrustedByItsAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(vcdfake.New(vcdfake.Options{}))
	t.Cleanup(server.Close)
	secret := newEnv(t, vcdfake.Options{}).secret()
	secret["url"] = []byte(server.URL)
	account := driver.Account{SecretName: "vcd", Region: region}
	if _, err := accountOf(t, vcd.Options{}, account, secret); err == nil {
		t.Error("a server was trusted whose authority is not known")
	}
	secret["ca.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if _, err := accountOf(t, vcd.Options{}, account, secret); err != nil {
		t.Errorf("with its authority: %v", err)
	}
}

// TestUnknownVDCIsUnauthorized: it may be one that the credentials may not read.
func TestUnknownVDCIsUnauthorized(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	if _, err := accountOf(t, vcd.Options{}, driver.Account{SecretName: "vcd", Region: "gone/" + vcdfake.VApp}, w.secret()); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// TestRedirectsAreNotFollowed: the credentials would be sent to any host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	secret := newEnv(t, vcdfake.Options{}).secret()
	secret["url"] = []byte(server.URL)
	if _, err := accountOf(t, vcd.Options{}, driver.Account{SecretName: "vcd", Region: region}, secret); err == nil || elsewhere {
		t.Errorf("got %v, and the other server was called: %t", err, elsewhere)
	}
}
