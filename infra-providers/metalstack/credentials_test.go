// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/metalstack"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

func connectWith(t *testing.T, account driver.Account, secret driver.Credentials) (driver.Driver[metalstack.InstanceConfig], error) {
	t.Helper()
	return metalstack.Cloud(metalstack.Options{}).Connect(t.Context(), account, secret)
}

func accountOf(t *testing.T, connected driver.Driver[metalstack.InstanceConfig]) string {
	t.Helper()
	id, err := connected.(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCredentialsOfASecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	url := w.cloud.Endpoint
	account := driver.Account{SecretName: "metal", Region: metalstackfake.Project}
	want := "metalstack/" + strings.TrimPrefix(url, "http://") + "/" + metalstackfake.Project
	for name, secret := range map[string]map[string]string{
		"an HMAC":               {"METAL_API_URL": url, "METAL_API_HMAC": metalstackfake.EditHMAC + "\n"},
		"another group's":       {"METAL_API_URL": url + "/", "METAL_API_HMAC": metalstackfake.AdminHMAC, "METAL_API_HMAC_AUTH_TYPE": "Metal-Admin"},
		"a token":               {"METAL_API_URL": url, "METAL_API_TOKEN": metalstackfake.Token + "\n"},
		"what can only be read": {"METAL_API_URL": url, "METAL_API_HMAC": metalstackfake.ViewHMAC, "METAL_API_HMAC_AUTH_TYPE": "Metal-View"},
	} {
		connected, err := connectWith(t, account, toCredentials(secret))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := accountOf(t, connected); got != want {
			t.Errorf("%s: the account is %q, want %q", name, got, want)
		}
	}
	for name, secret := range map[string]map[string]string{
		"nothing":              {},
		"no URL":               {"METAL_API_HMAC": "x"},
		"no key":               {"METAL_API_URL": url},
		"two keys":             {"METAL_API_URL": url, "METAL_API_HMAC": "x", "METAL_API_TOKEN": "y"},
		"a URL without a host": {"METAL_API_URL": "api.example.org", "METAL_API_HMAC": "x"},
		"a URL of a file":      {"METAL_API_URL": "file:///etc/passwd", "METAL_API_HMAC": "x"},
		"a URL with a user":    {"METAL_API_URL": "https://me:secret@api.example.org", "METAL_API_HMAC": "x"},
		"a token with a line":  {"METAL_API_URL": url, "METAL_API_TOKEN": "a\nb"},
		"a group with a space": {"METAL_API_URL": url, "METAL_API_HMAC": "x", "METAL_API_HMAC_AUTH_TYPE": "Metal Admin"},
		"no certificate":       {"METAL_API_URL": url, "METAL_API_HMAC": "x", "METAL_API_CA": "none"},
		"a file":               {"METAL_API_URL": url, "METAL_API_TOKEN_FILE": "/etc/hostname"},
	} {
		_, err := connectWith(t, account, toCredentials(secret))
		if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), `Secret "metal"`) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, secret := range map[string]map[string]string{
		"a wrong HMAC":  {"METAL_API_URL": url, "METAL_API_HMAC": "wrong"},
		"a wrong group": {"METAL_API_URL": url, "METAL_API_HMAC": metalstackfake.EditHMAC, "METAL_API_HMAC_AUTH_TYPE": "Metal-Root"},
		"a wrong token": {"METAL_API_URL": url, "METAL_API_TOKEN": "wrong"},
	} {
		connected, err := connectWith(t, account, toCredentials(secret))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := connected.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsUnauthorized(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func toCredentials(of map[string]string) driver.Credentials {
	secret := driver.Credentials{}
	for key, value := range of {
		secret[key] = []byte(value)
	}
	return secret
}

func TestUnknownProjectIsNoAccount(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	connected, err := connectWith(t, driver.Account{SecretName: "metal", Region: "gone"}, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connected.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
	if _, err := connectWith(t, driver.Account{SecretName: "metal", Region: "../v1/user/me"}, w.secret()); !driver.IsInvalidConfiguration(err) {
		t.Errorf("a project that is a path: %v", err)
	}
}

// TestOwnCredentials sets the environment of the provider, of which a Secret takes nothing.
func TestOwnCredentials(t *testing.T) {
	w := newEnv(t, metalstackfake.Options{})
	t.Setenv("METAL_API_URL", w.cloud.Endpoint)
	t.Setenv("METAL_API_HMAC", metalstackfake.EditHMAC)
	own := driver.Account{Region: metalstackfake.Project}
	connected, err := connectWith(t, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	accountOf(t, connected)
	for name, secret := range map[string]map[string]string{
		"only a URL": {"METAL_API_URL": "http://192.0.2.1"}, "only a key": {"METAL_API_HMAC": "x"}, "nothing": {},
	} {
		if _, err := connectWith(t, driver.Account{SecretName: "metal", Region: metalstackfake.Project}, toCredentials(secret)); !driver.IsUnauthorized(err) {
			t.Errorf("a Secret with %s: got %v", name, err)
		}
	}

	t.Setenv("METAL_API_HMAC", "")
	if _, err := connectWith(t, own, nil); !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), "the environment") {
		t.Errorf("without a key: %v", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	t.Setenv("METAL_API_TOKEN_FILE", file)
	if connected, err = connectWith(t, own, nil); err != nil {
		t.Fatal(err)
	}
	identify := connected.(driver.AccountIdentifier)
	if _, err := identify.AccountID(t.Context()); !driver.IsUnauthorized(err) || strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	for content, valid := range map[string]bool{"": false, "expired": false, metalstackfake.Token + "\n": true} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := identify.AccountID(t.Context()); valid != (err == nil) || err != nil && !driver.IsUnauthorized(err) {
			t.Errorf("with %q in the file: %v", content, err)
		}
	}
}

// TestSecretNamesNoMetadataService: a tenant may name any server but those that have credentials of the provider's host.
func TestSecretNamesNoMetadataService(t *testing.T) {
	t.Parallel()
	connected, err := connectWith(t, driver.Account{SecretName: "metal", Region: metalstackfake.Project}, toCredentials(map[string]string{
		"METAL_API_URL": "http://169.254.169.254/latest", "METAL_API_HMAC": "x",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connected.(driver.AccountIdentifier).AccountID(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

// TestAccountHasOneForm: the port of the scheme makes no other account.
func TestAccountHasOneForm(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	local := strings.TrimPrefix(w.cloud.Endpoint, "http://")
	redirected := roundTripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Scheme, r.URL.Host, r.Host = "http", local, local
		return http.DefaultTransport.RoundTrip(r)
	})
	for url, want := range map[string]string{
		"https://API.example.org": "api.example.org", "https://api.example.org:443": "api.example.org", "https://api.example.org:/": "api.example.org",
		"http://api.example.org:80": "api.example.org", "http://api.example.org:443": "api.example.org:443", "https://api.example.org:8443": "api.example.org:8443",
		"https://[2001:db8::1]:443": "[2001:db8::1]",
	} {
		secret := w.secret()
		secret["METAL_API_URL"] = []byte(url)
		connected, err := w.description(redirected).Connect(t.Context(), driver.Account{SecretName: "metal", Region: metalstackfake.Project}, secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := accountOf(t, connected); got != "metalstack/"+want+"/"+metalstackfake.Project {
			t.Errorf("%s: the account is %q", url, got)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnotherInstallationAtTheSameAddressIsNotUsed: it was deployed anew with the same credentials, and does not have the project.
func TestAnotherInstallationAtTheSameAddressIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	known := identity
	known.ProviderID = mustCreate(t, d, identity).ProviderID
	w.cloud.Replace()
	for name, id := range map[string]driver.Identity{"by provider ID": known, "by UID": identity} {
		if err := d.Delete(t.Context(), id); err != nil && !driver.IsUnauthorized(err) {
			t.Errorf("deleting %s: got %v", name, err)
		}
		if _, err := d.Get(t.Context(), id); !driver.IsUnauthorized(err) {
			t.Errorf("reading %s: got %v", name, err)
		}
	}
}
