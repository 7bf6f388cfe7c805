// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/azure"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/driver"
)

// TestSecretsAreComplete: what a Secret lacks is never taken from the environment.
func TestSecretsAreComplete(t *testing.T) {
	setOwn(t)
	arm := newEnv(t, azurefake.Options{})
	for name, test := range map[string]struct {
		change func(map[string][]byte)
		region string
		want   string
	}{
		"without a tenant":             {func(s map[string][]byte) { delete(s, "tenantID") }, account.Region, "lacks one of the keys"},
		"without a client":             {func(s map[string][]byte) { delete(s, "clientID") }, account.Region, "lacks one of the keys"},
		"without a password":           {func(s map[string][]byte) { delete(s, "clientSecret") }, account.Region, "lacks one of the keys"},
		"without a subscription":       {func(s map[string][]byte) { delete(s, "subscriptionID") }, "/nodes", "no subscription is known"},
		"with a subscription as path":  {func(s map[string][]byte) { s["subscriptionID"] = []byte("x/../y") }, "/nodes", "no ID"},
		"with a tenant as path":        {func(s map[string][]byte) { s["tenantID"] = []byte("a/b") }, account.Region, "is no tenant"},
		"with a tenant as query":       {func(s map[string][]byte) { s["tenantID"] = []byte("a?b=c#") }, account.Region, "is no tenant"},
		"with a tenant of another URL": {func(s map[string][]byte) { s["tenantID"] = []byte("@evil.example.org") }, account.Region, "is no tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := maps.Clone(azurefake.Secret())
			test.change(secret)
			_, err := arm.description().Connect(t.Context(), driver.Account{SecretName: "azure", Region: test.region}, secret)
			if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// setOwn gives the provider credentials of its own.
func setOwn(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AZURE_TENANT_ID": azurefake.Tenant, "AZURE_CLIENT_ID": azurefake.ClientID, "AZURE_CLIENT_SECRET": azurefake.ClientSecret,
		"AZURE_SUBSCRIPTION_ID": azurefake.Subscription, "AZURE_FEDERATED_TOKEN_FILE": "", "AZURE_AUTHORITY_HOST": "",
	} {
		t.Setenv(name, value)
	}
}

// TestOwnCredentials are those of the environment.
func TestOwnCredentials(t *testing.T) {
	setOwn(t)
	arm := newEnv(t, azurefake.Options{})
	d, err := arm.description().Connect(t.Context(), driver.Account{Region: "/nodes"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := d.(driver.AccountIdentifier).AccountID(t.Context())
	if want := "azure/" + azurefake.Subscription + "/" + azurefake.ResourceGroup; err != nil || id != want {
		t.Errorf("got %q and %v, want %q", id, err, want)
	}
}

// TestWorkloadIdentity is preferred, and its token is sent to the authority that the operator has set.
func TestWorkloadIdentity(t *testing.T) {
	setOwn(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a.b.c"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	arm := newEnv(t, azurefake.Options{})
	d, err := arm.description().Connect(t.Context(), driver.Account{Region: "/nodes"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The fake accepts a password only, so that the refusal proves which credentials were used.
	if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("got %v", err)
	}
}

// TestTokensAreCached: one token serves all calls of an account.
func TestTokensAreCached(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	d := arm.connect(t)
	for range 3 {
		if _, err := d.Get(t.Context(), identity); !driver.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if got := arm.cloud.Tokens(); got != 1 {
		t.Errorf("%d tokens were requested, want 1", got)
	}
}

// TestRefusedCredentials: the text is the same each time.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	secret := maps.Clone(azurefake.Secret())
	secret["clientSecret"] = []byte("guessed")
	d, err := arm.description().Connect(t.Context(), account, secret)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Get(t.Context(), identity)
	if want := "Microsoft Entra refuses the credentials: 401 invalid_client AADSTS7000215"; !driver.IsUnauthorized(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestUnknownCloud is refused.
func TestUnknownCloud(t *testing.T) {
	t.Parallel()
	options := newEnv(t, azurefake.Options{}).options()
	options.Cloud = "Cumulus"
	if _, err := connectWith(t, options); err == nil {
		t.Error("connected to an unknown cloud")
	}
	for _, known := range []string{"", "AzurePublic", "AzureGovernment", "AzureChina"} {
		options.Cloud = known
		if _, err := connectWith(t, options); err != nil {
			t.Errorf("%q: %v", known, err)
		}
	}
}

// TestRedirectsAreNotFollowed: a token is sent to no other host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	reached := atomic.Bool{}
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(elsewhere.Close)
	redirecting := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(redirecting.Close)
	for name, change := range map[string]func(*azure.Options){
		"of the Resource Manager": func(o *azure.Options) { o.Endpoint = redirecting.URL },
		"of Microsoft Entra":      func(o *azure.Options) { o.AuthorityHost = redirecting.URL },
	} {
		options := arm.options()
		change(&options)
		d, err := connectWith(t, options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if reached.Load() {
		t.Error("a redirect was followed")
	}
}
