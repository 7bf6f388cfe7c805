// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google"
	"drover.io/infra-providers/google/googlefake"
)

// TestOnlyKeysOfServiceAccountsAreAccepted: credentials of other types name URLs, files and programs of the author's choice,
// which the provider would read, run and send tokens to.
func TestOnlyKeysOfServiceAccountsAreAccepted(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	with := func(change func(map[string]any)) []byte {
		fields := map[string]any{}
		if err := json.Unmarshal(gce.cloud.Key(), &fields); err != nil {
			t.Fatal(err)
		}
		change(fields)
		content, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	large := strings.Repeat("a", 17<<10)
	for name, test := range map[string]struct {
		key  []byte
		want string
	}{
		"a key":                           {gce.cloud.Key(), ""},
		"a key without a token URI":       {with(func(f map[string]any) { delete(f, "token_uri") }), ""},
		"nothing":                         {nil, "missing or empty"},
		"no JSON":                         {[]byte("{secret"), "no JSON key"},
		"a workload identity":             {with(func(f map[string]any) { f["type"] = "external_account" }), "type service_account"},
		"a user":                          {with(func(f map[string]any) { f["type"] = "authorized_user" }), "type service_account"},
		"an impersonated service account": {with(func(f map[string]any) { f["type"] = "impersonated_service_account" }), "type service_account"},
		"another token endpoint":          {with(func(f map[string]any) { f["token_uri"] = "https://tokens.example.org/" }), "token_uri is not Google's"},
		"a token endpoint like Google's":  {with(func(f map[string]any) { f["token_uri"] = "https://oauth2.googleapis.com.example.org/token" }), "token_uri is not Google's"},
		"another universe":                {with(func(f map[string]any) { f["universe_domain"] = "example.org" }), "universe_domain"},
		"no private key":                  {with(func(f map[string]any) { delete(f, "private_key") }), "private_key is missing"},
		"a malformed private key":         {with(func(f map[string]any) { f["private_key"] = "secret" }), "no RSA key"},
		"a private key without end":       {with(func(f map[string]any) { f["private_key"] = large }), "more than 16 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := gce.description().Connect(t.Context(), driver.Account{SecretName: "google", Region: googlefake.Project}, driver.Credentials{"serviceaccount.json": test.key})
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want an UnauthorizedError with %q", err, test.want)
			}
		})
	}
}

// TestSecretIgnoresTheCredentialsOfTheHost has credentials in the environment that lead to another endpoint.
func TestSecretIgnoresTheCredentialsOfTheHost(t *testing.T) {
	asked := atomic.Int64{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	gce := newEnv(t, googlefake.Options{})
	file := filepath.Join(t.TempDir(), "own.json")
	own := bytes.ReplaceAll(gce.cloud.Key(), []byte("https://oauth2.googleapis.com/token"), []byte(elsewhere.URL))
	if err := os.WriteFile(file, own, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	if _, err := gce.connect(t).Get(t.Context(), identity); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	if asked.Load() > 0 {
		t.Error("the credentials of the host were used")
	}
}

// TestCredentialsOfTheEnvironment uses the credentials of the environment, and none where there are none.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	gce := newEnv(t, googlefake.Options{})
	file := filepath.Join(t.TempDir(), "own.json")
	own := bytes.ReplaceAll(gce.cloud.Key(), []byte("https://oauth2.googleapis.com/token"), []byte(gce.url+"/token"))
	if err := os.WriteFile(file, own, 0o600); err != nil {
		t.Fatal(err)
	}
	get := func() error {
		d, err := google.Cloud(google.Options{Endpoint: gce.url}).Connect(t.Context(), driver.Account{Region: googlefake.Project}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.(driver.AccountIdentifier).AccountID(t.Context())
		return err
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	if err := get(); err != nil {
		t.Errorf("with a file of the environment: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "missing.json"))
	if err := get(); !driver.IsUnauthorized(err) {
		t.Errorf("without credentials: got %v, want an UnauthorizedError", err)
	}
}

// TestRevokedKeyIsUnauthorized has a key that Google does not know.
func TestRevokedKeyIsUnauthorized(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	if err := json.Unmarshal(gce.cloud.Key(), &fields); err != nil {
		t.Fatal(err)
	}
	fields["private_key"] = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(other)}))
	key, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	d, err := gce.description().Connect(t.Context(), driver.Account{SecretName: "google", Region: googlefake.Project}, driver.Credentials{"serviceaccount.json": key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// TestRedirectsAreNotFollowed: each request has a token, which must not reach another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	tokens := atomic.Int64{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tokens.Add(1) }))
	t.Cleanup(elsewhere.Close)
	gce := newEnv(t, googlefake.Options{})
	redirects := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	d, err := google.Cloud(google.Options{Endpoint: redirects.URL, TokenEndpoint: gce.url + "/token"}).
		Connect(t.Context(), driver.Account{SecretName: "google", Region: googlefake.Project}, gce.secret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("got %v, want an error", err)
	}
	if tokens.Load() > 0 {
		t.Error("the redirect was followed")
	}
}
